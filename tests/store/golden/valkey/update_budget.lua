-- update_budget(budget_id, version, policy_json, next_reset_at_ms, namespace, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r and same(r.version, a[3])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[4], 'policy_json')
      local c2 = a[5]
      local c3 = now()
      local c4 = required(now(), 'updated_at_ms')
      w.version = c0
      w.policy_json = c1
      w.next_reset_at_ms = c2
      w.changed_at_ms = c3
      w.updated_at_ms = c4
      put(T.ff_budget_policy, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(a[2], 'execution_id'),
        event_type = required('budget_updated', 'event_type'),
        details = a[7],
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        partition_key = required('0', 'partition_key'),
        namespace = a[6],
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    do local at = a[5] if at then wake('budget_resets', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
