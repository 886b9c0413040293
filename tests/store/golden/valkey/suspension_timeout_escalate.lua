-- suspension_timeout_escalate(partition_key, execution_id, version, now, blocking_detail)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and same(r.lifecycle_phase, 'suspended')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c3 = required('suspended', 'lifecycle_phase')
      local c4 = required('unowned', 'ownership_state')
      local c5 = required('not_applicable', 'eligibility_state')
      local c6 = required('paused_by_operator', 'blocking_reason')
      local c7 = required(a[6], 'blocking_detail')
      local c8 = required('none', 'terminal_outcome')
      local c9 = required('suspended', 'public_state')
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.lifecycle_phase = c3
      w.ownership_state = c4
      w.eligibility_state = c5
      w.blocking_reason = c6
      w.blocking_detail = c7
      w.terminal_outcome = c8
      w.public_state = c9
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        local pk = int(n.partition_key) .. uuid(n.execution_id)
        local r = fetch(T.ff_suspension_current, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and r.closed_at_ms == nil then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_suspension_current, pk)
        local w
        w = copy(r)
        local c0 = required('waiting_for_operator_review', 'reason_code')
        local c1 = nil
        local c2 = nil
        local c3 = required(plus(r.version, '1'), 'version')
        w.reason_code = c0
        w.timeout_at_ms = c1
        w.timeout_behavior = c2
        w.version = c3
        put(T.ff_suspension_current, pk, w)
      end
    end
    return row_answer(0, {  })
  end,
}
