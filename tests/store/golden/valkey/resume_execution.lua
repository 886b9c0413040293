-- resume_execution(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms)
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
      local c3 = required('runnable', 'lifecycle_phase')
      local c4 = required('unowned', 'ownership_state')
      local c5 = required(a[6], 'eligibility_state')
      local c6 = required(a[7], 'blocking_reason')
      local c7 = required(a[8], 'blocking_detail')
      local c8 = required('none', 'terminal_outcome')
      local c9 = required(a[9], 'public_state')
      local c10 = nil
      local c11 = nil
      local c12 = a[10]
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
      w.current_suspension_id = c10
      w.current_waitpoint_id = c11
      w.delay_until_ms = c12
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
        local c0 = a[5]
        local c1 = 'resumed'
        local c2 = required(plus(r.version, '1'), 'version')
        w.closed_at_ms = c0
        w.close_reason = c1
        w.version = c2
        put(T.ff_suspension_current, pk, w)
      end
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_row(I.waitpoints_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and (r.state == 'active') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local w
        w = copy(r)
        local c0 = required('closed', 'state')
        local c1 = a[5]
        local c2 = 'resumed'
        local c3 = required(plus(r.version, '1'), 'version')
        local c4 = a[5]
        w.state = c0
        w.closed_at_ms = c1
        w.close_reason = c2
        w.version = c3
        w.satisfied_at_ms = c4
        put(T.ff_waitpoint_pending, pk, w)
      end
    end
    wake('ready', 's', n.lane_id, '')
    do local at = a[10] if at then wake('delayed', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
