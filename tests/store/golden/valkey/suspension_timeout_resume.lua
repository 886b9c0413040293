-- suspension_timeout_resume(partition_key, execution_id, version, now, signal_id, waitpoint_id, suspension_id, attempt_index, lane_id)
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
      local c3 = nil
      local c4 = nil
      local c5 = required('runnable', 'lifecycle_phase')
      local c6 = required('unowned', 'ownership_state')
      local c7 = required('eligible_now', 'eligibility_state')
      local c8 = required('waiting_for_worker', 'blocking_reason')
      local c9 = required('', 'blocking_detail')
      local c10 = required('none', 'terminal_outcome')
      local c11 = required('waiting', 'public_state')
      local c12 = nil
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.current_suspension_id = c3
      w.current_waitpoint_id = c4
      w.lifecycle_phase = c5
      w.ownership_state = c6
      w.eligibility_state = c7
      w.blocking_reason = c8
      w.blocking_detail = c9
      w.terminal_outcome = c10
      w.public_state = c11
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
        local c1 = 'timed_out_auto_resume'
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
        local c2 = 'timed_out_auto_resume'
        local c3 = required(plus(r.version, '1'), 'version')
        w.state = c0
        w.closed_at_ms = c1
        w.close_reason = c2
        w.version = c3
        put(T.ff_waitpoint_pending, pk, w)
      end
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        signal_id = required(a[6], 'signal_id'),
        waitpoint_id = required(a[7], 'waitpoint_id'),
        suspension_id = a[8],
        attempt_index = required(a[9], 'attempt_index'),
        signal_name = required('timeout', 'signal_name'),
        signal_category = required('system', 'signal_category'),
        source_type = required('engine', 'source_type'),
        source_identity = required('suspension_timeout', 'source_identity'),
        created_at_ms = required(a[5], 'created_at_ms'),
        accepted_at_ms = required(a[5], 'accepted_at_ms'),
        observed_effect = required('timed_out_auto_resume', 'observed_effect'),
        matched = required('1', 'matched'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. uuid(row.signal_id)
      insert(T.ff_signal, pk, row, 3)
    end
    wake('ready', 's', a[10], '')
    return row_answer(0, {  })
  end,
}
