-- release_execution(partition_key, execution_id, version, now, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c3 = required('runnable', 'lifecycle_phase')
      local c4 = required('unowned', 'ownership_state')
      local c5 = required('eligible_now', 'eligibility_state')
      local c6 = required('waiting_for_worker', 'blocking_reason')
      local c7 = required('', 'blocking_detail')
      local c8 = required('none', 'terminal_outcome')
      local c9 = required('waiting', 'public_state')
      local c10 = nil
      local c11 = nil
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
      w.delay_until_ms = c10
      w.blocked_on = c11
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('released', 'event_type'),
        details = a[6],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    wake('ready', 's', n.lane_id, '')
    return row_answer(0, {  })
  end,
}
