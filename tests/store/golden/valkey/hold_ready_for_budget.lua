-- hold_ready_for_budget(partition_key, execution_id, version, now, detail, blocked_on, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and same(r.eligibility_state, 'eligible_now')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c3 = nil
      local c4 = nil
      local c5 = required('runnable', 'lifecycle_phase')
      local c6 = required('unowned', 'ownership_state')
      local c7 = required('blocked_by_budget', 'eligibility_state')
      local c8 = required('waiting_for_budget', 'blocking_reason')
      local c9 = required(a[6], 'blocking_detail')
      local c10 = required('none', 'terminal_outcome')
      local c11 = required('rate_limited', 'public_state')
      local c12 = a[7]
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.reserved_for = c3
      w.reserved_until_ms = c4
      w.lifecycle_phase = c5
      w.ownership_state = c6
      w.eligibility_state = c7
      w.blocking_reason = c8
      w.blocking_detail = c9
      w.terminal_outcome = c10
      w.public_state = c11
      w.blocked_on = c12
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        local pk = int(n.partition_key) .. uuid(n.execution_id)
        local r = fetch(T.ff_claim_grant, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_claim_grant, pk, false) end
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('budget_breached', 'event_type'),
        details = a[8],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 2)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
