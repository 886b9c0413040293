-- fail_for_good(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, reason, category)
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
      local c11 = a[8]
      local c12 = a[8]
      local c13 = a[4]
      local c14 = a[5]
      local c15 = now()
      local c16 = plus(now(), b.failed_retention_ttl_ms)
      local c17 = required('terminal', 'lifecycle_phase')
      local c18 = required('unowned', 'ownership_state')
      local c19 = required('not_applicable', 'eligibility_state')
      local c20 = required('none', 'blocking_reason')
      local c21 = required('', 'blocking_detail')
      local c22 = required('failed', 'terminal_outcome')
      local c23 = required('failed', 'public_state')
      local c24 = required('attempt_terminal', 'attempt_state')
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
      w.failure_reason = c11
      w.last_failure_message = c12
      w.closing_epoch = c13
      w.closing_attempt_index = c14
      w.terminal_at_ms = c15
      w.retain_until_ms = c16
      w.lifecycle_phase = c17
      w.ownership_state = c18
      w.eligibility_state = c19
      w.blocking_reason = c20
      w.blocking_detail = c21
      w.terminal_outcome = c22
      w.public_state = c23
      w.attempt_state = c24
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
        local c0 = required('ended_failure', 'attempt_state')
        local c1 = 'failed'
        local c2 = now()
        local c3 = nil
        local c4 = a[8]
        local c5 = a[9]
        w.attempt_state = c0
        w.outcome = c1
        w.terminal_at_ms = c2
        w.lease_expires_at_ms = c3
        w.failure_reason = c4
        w.failure_category = c5
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
        reason = 'failed',
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
        outcome = required('failed', 'outcome'),
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
