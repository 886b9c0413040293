-- update_quota_policy(quota_policy_id, version, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, namespace, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r and same(r.version, a[3])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[4], 'requests_per_window_seconds')
      local c1 = required(a[5], 'max_requests_per_window')
      local c2 = required(a[6], 'active_concurrency_cap')
      local c3 = required(a[7], 'jitter_ms')
      local c4 = required(plus(r.version, '1'), 'version')
      local c5 = now()
      local c6 = required(now(), 'updated_at_ms')
      w.requests_per_window_seconds = c0
      w.max_requests_per_window = c1
      w.active_concurrency_cap = c2
      w.jitter_ms = c3
      w.version = c4
      w.changed_at_ms = c5
      w.updated_at_ms = c6
      put(T.ff_quota_policy, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(a[2], 'execution_id'),
        event_type = required('quota_policy_updated', 'event_type'),
        details = a[9],
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        partition_key = required('0', 'partition_key'),
        namespace = a[8],
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    wake('quotas', '', nil, '')
    return row_answer(0, {  })
  end,
}
