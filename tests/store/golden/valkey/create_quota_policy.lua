-- create_quota_policy(quota_policy_id, namespace, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, now)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_quota_policy_id = required(a[2], 'quota_policy_id')
      local v_namespace = required(a[3], 'namespace')
      local v_requests_per_window_seconds = required(a[4], 'requests_per_window_seconds')
      local v_max_requests_per_window = required(a[5], 'max_requests_per_window')
      local v_active_concurrency_cap = required(a[6], 'active_concurrency_cap')
      local v_jitter_ms = required(a[7], 'jitter_ms')
      local v_created_at_ms = required(a[8], 'created_at_ms')
      local v_updated_at_ms = required(a[8], 'updated_at_ms')
      local pk = uuid(v_quota_policy_id)
      if exists(T.ff_quota_policy, pk) then refuse(0) end
      local s, k = { 's1f', v_quota_policy_id, 'Ev1', v_requests_per_window_seconds, 'z6J', v_max_requests_per_window, 'NyJ', v_active_concurrency_cap, 'yVc', v_created_at_ms, '23j', v_updated_at_ms }, 12
      if v_namespace ~= 'default' then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_jitter_ms ~= '0' then k = k + 2 s[k - 1], s[k] = 'Q49', v_jitter_ms end
      make(T.ff_quota_policy, pk, s)
    end
    return { 1 }
  end,
}
