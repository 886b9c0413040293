-- create_quota_policy(quota_policy_id, namespace, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        quota_policy_id = required(a[2], 'quota_policy_id'),
        namespace = required(a[3], 'namespace'),
        requests_per_window_seconds = required(a[4], 'requests_per_window_seconds'),
        max_requests_per_window = required(a[5], 'max_requests_per_window'),
        active_concurrency_cap = required(a[6], 'active_concurrency_cap'),
        jitter_ms = required(a[7], 'jitter_ms'),
        created_at_ms = required(a[8], 'created_at_ms'),
        updated_at_ms = required(a[8], 'updated_at_ms'),
      }
      local pk = uuid(row.quota_policy_id)
      n = insert(T.ff_quota_policy, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
