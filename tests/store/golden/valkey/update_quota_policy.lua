-- update_quota_policy(quota_policy_id, version, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, namespace, details)
local constant_0 = { 'requests_per_window_seconds', 'max_requests_per_window', 'active_concurrency_cap', 'jitter_ms', 'version', 'changed_at_ms', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r and same(r.version, a[3])) then refuse(0) end
      local c0 = required(a[4], 'requests_per_window_seconds')
      local c1 = required(a[5], 'max_requests_per_window')
      local c2 = required(a[6], 'active_concurrency_cap')
      local c3 = required(a[7], 'jitter_ms')
      local c4 = required(plus(r.version, '1'), 'version')
      local c5 = time
      local c6 = required(time, 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.requests_per_window_seconds ~= c0 then k = k + 2 s[k - 1], s[k] = 'Ev1', c0 end
      if r.max_requests_per_window ~= c1 then k = k + 2 s[k - 1], s[k] = 'z6J', c1 end
      if r.active_concurrency_cap ~= c2 then k = k + 2 s[k - 1], s[k] = 'NyJ', c2 end
      if r.jitter_ms ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'Q49' else k = k + 2 s[k - 1], s[k] = 'Q49', c3 end end
      if r.version ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c4 end end
      if r.changed_at_ms ~= c5 then if c5 == nil then j = j + 1 u[j] = '83r' else k = k + 2 s[k - 1], s[k] = '83r', c5 end end
      if r.updated_at_ms ~= c6 then k = k + 2 s[k - 1], s[k] = '23j', c6 end
      note_change(T.ff_quota_policy, pk, r, constant_0, { requests_per_window_seconds = r.requests_per_window_seconds, max_requests_per_window = r.max_requests_per_window, active_concurrency_cap = r.active_concurrency_cap, jitter_ms = r.jitter_ms, version = r.version, changed_at_ms = r.changed_at_ms, updated_at_ms = r.updated_at_ms })
      r.requests_per_window_seconds = c0
      r.max_requests_per_window = c1
      r.active_concurrency_cap = c2
      r.jitter_ms = c3
      r.version = c4
      r.changed_at_ms = c5
      r.updated_at_ms = c6
      change(T.ff_quota_policy, pk, s, u)
      n = r
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(a[2], 'execution_id')
      local v_details = a[9]
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_namespace = a[8]
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'quota_policy_updated', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    wake('quotas', '', '', '')
    return { 1 }
  end,
}
