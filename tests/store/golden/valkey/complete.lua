-- complete(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, result, result_encoding)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and same(r.lifecycle_phase, 'active') and same(r.ownership_state, 'leased') and less(now(), r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(now(), r.attempt_timeout_at_ms))) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = required(now(), 'last_transition_at')
      local c3 = nil
      local c4 = nil
      local c5 = nil
      local c6 = nil
      local c7 = nil
      local c8 = nil
      local c9 = nil
      local c10 = nil
      local c11 = a[4]
      local c12 = a[5]
      local c13 = now()
      local c14 = plus(now(), b.retention_ttl_ms)
      local c15 = required('terminal', 'lifecycle_phase')
      local c16 = required('unowned', 'ownership_state')
      local c17 = required('not_applicable', 'eligibility_state')
      local c18 = required('none', 'blocking_reason')
      local c19 = required('', 'blocking_detail')
      local c20 = required('success', 'terminal_outcome')
      local c21 = required('completed', 'public_state')
      local c22 = required('attempt_terminal', 'attempt_state')
      local c23 = a[8]
      local c24 = a[9]
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.current_lease_id = c3
      w.current_worker_id = c4
      w.current_worker_instance_id = c5
      w.lease_expires_at_ms = c6
      w.lease_last_renewed_at = c7
      w.lease_renewal_deadline = c8
      w.lease_expired_at = c9
      w.attempt_timeout_at_ms = c10
      w.closing_epoch = c11
      w.closing_attempt_index = c12
      w.terminal_at_ms = c13
      w.retain_until_ms = c14
      w.lifecycle_phase = c15
      w.ownership_state = c16
      w.eligibility_state = c17
      w.blocking_reason = c18
      w.blocking_detail = c19
      w.terminal_outcome = c20
      w.public_state = c21
      w.attempt_state = c22
      w.result = c23
      w['\1result'] = c23 == nil
      w.result_encoding = c24
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil then
        local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
        local r = fetch(T.ff_attempt, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and same(r.attempt_index, n.attempt_index) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_attempt, pk)
        local w
        w = copy(r)
        local c0 = required('ended_success', 'attempt_state')
        local c1 = 'success'
        local c2 = now()
        local c3 = nil
        w.attempt_state = c0
        w.outcome = c1
        w.terminal_at_ms = c2
        w.lease_expires_at_ms = c3
        put(T.ff_attempt, pk, w)
      end
    end
    do
      local row = {
        event_id = next_number(T.ff_lease_event),
        execution_id = required(n.execution_id, 'execution_id'),
        lease_id = a[6],
        lease_epoch = n.lease_epoch,
        worker_instance_id = a[7],
        event_type = required('revoked', 'event_type'),
        reason = 'completed',
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_lease_event, pk, row, 2)
    end
    do
      local row = {
        event_id = next_number(T.ff_completion_event),
        execution_id = required(n.execution_id, 'execution_id'),
        flow_id = n.flow_id,
        outcome = required('success', 'outcome'),
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        committed_at_ms = required(now(), 'committed_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_completion_event, pk, row, 3)
    end
    wake('ff_lease_event', '', nil, '')
    wake('ff_completion_event', '', nil, '')
    return row_answer(1, { n.flow_id })
  end,
}
