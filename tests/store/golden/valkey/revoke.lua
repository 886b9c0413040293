-- revoke(partition_key, execution_id, version, lease_epoch, blocking_detail)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and same(r.lease_epoch, a[5]) and same(r.ownership_state, 'leased')) then refuse(0) end
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
      local c11 = required('runnable', 'lifecycle_phase')
      local c12 = required('unowned', 'ownership_state')
      local c13 = required('eligible_now', 'eligibility_state')
      local c14 = required('waiting_for_worker', 'blocking_reason')
      local c15 = required(a[6], 'blocking_detail')
      local c16 = required('none', 'terminal_outcome')
      local c17 = required('waiting', 'public_state')
      local c18 = required('attempt_interrupted', 'attempt_state')
      local c19 = 'lease_revoked'
      local c20 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c21 = b.attempt_timeout_ms
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
      w.lifecycle_phase = c11
      w.ownership_state = c12
      w.eligibility_state = c13
      w.blocking_reason = c14
      w.blocking_detail = c15
      w.terminal_outcome = c16
      w.public_state = c17
      w.attempt_state = c18
      w.interrupt_cause = c19
      w.lease_epoch = c20
      w.attempt_timeout_remaining_ms = c21
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
        local c0 = required('suspended', 'attempt_state')
        local c1 = now()
        local c2 = nil
        local c3 = nil
        local c4 = required(n.lease_epoch, 'lease_epoch')
        local c5 = n.attempt_timeout_remaining_ms
        w.attempt_state = c0
        w.suspended_at_ms = c1
        w.worker_instance_id = c2
        w.lease_expires_at_ms = c3
        w.lease_epoch = c4
        w.attempt_timeout_remaining_ms = c5
        put(T.ff_attempt, pk, w)
      end
    end
    do
      local row = {
        event_id = next_number(T.ff_lease_event),
        execution_id = required(n.execution_id, 'execution_id'),
        lease_id = b.current_lease_id,
        lease_epoch = n.lease_epoch,
        worker_instance_id = b.current_worker_instance_id,
        event_type = required('revoked', 'event_type'),
        reason = 'lease_revoked',
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_lease_event, pk, row, 2)
    end
    wake('ff_lease_event', '', nil, '')
    wake('ready', 's', n.lane_id, '')
    return row_answer(0, {  })
  end,
}
