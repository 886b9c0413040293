-- suspend(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, blocking_reason, blocking_detail, suspension_id, primary_waitpoint_id, now, suspension_text, timeout_at_ms, reason_code, condition, satisfied_set, timeout_behavior, requested_by, resume_policy, continuation_metadata_pointer, satisfier_signal_ids)
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
      local c11 = required('suspended', 'lifecycle_phase')
      local c12 = required('unowned', 'ownership_state')
      local c13 = required('not_applicable', 'eligibility_state')
      local c14 = required(a[8], 'blocking_reason')
      local c15 = required(a[9], 'blocking_detail')
      local c16 = required('none', 'terminal_outcome')
      local c17 = required('suspended', 'public_state')
      local c18 = required('attempt_interrupted', 'attempt_state')
      local c19 = 'suspended'
      local c20 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c21 = until_(b.attempt_timeout_at_ms)
      local c22 = a[10]
      local c23 = a[11]
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
      w.current_suspension_id = c22
      w.current_waitpoint_id = c23
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
        local c1 = a[12]
        local c2 = a[13]
        local c3 = nil
        local c4 = required(n.lease_epoch, 'lease_epoch')
        local c5 = n.attempt_timeout_remaining_ms
        w.attempt_state = c0
        w.suspended_at_ms = c1
        w.suspension_id = c2
        w.lease_expires_at_ms = c3
        w.lease_epoch = c4
        w.attempt_timeout_remaining_ms = c5
        put(T.ff_attempt, pk, w)
      end
    end
    do
      local row = {
        partition_key = required(n.partition_key, 'partition_key'),
        execution_id = required(n.execution_id, 'execution_id'),
        suspension_id = required(a[10], 'suspension_id'),
        suspended_at_ms = required(a[12], 'suspended_at_ms'),
        timeout_at_ms = a[14],
        reason_code = required(a[15], 'reason_code'),
        condition = required(a[16], 'condition'),
        satisfied_set = required(a[17], 'satisfied_set'),
        timeout_behavior = a[18],
        attempt_index = required(a[5], 'attempt_index'),
        requested_by = required(a[19], 'requested_by'),
        resume_policy = required(a[20], 'resume_policy'),
        continuation_metadata_pointer = a[21],
        primary_waitpoint_id = a[11],
        last_signal_at_ms = nil,
        closer_signal_id = nil,
        satisfier_signal_ids = required(a[22], 'satisfier_signal_ids'),
        closed_at_ms = nil,
        close_reason = nil,
        version = required('0', 'version'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id)
      local r = fetch(T.ff_suspension_current, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[12], 'suspended_at_ms')
        local c1 = required(a[10], 'suspension_id')
        local c2 = a[14]
        local c3 = required(a[15], 'reason_code')
        local c4 = required(a[16], 'condition')
        local c5 = required(a[17], 'satisfied_set')
        local c6 = a[18]
        local c7 = required(a[5], 'attempt_index')
        local c8 = required(a[19], 'requested_by')
        local c9 = required(a[20], 'resume_policy')
        local c10 = a[21]
        local c11 = a[11]
        local c12 = required(a[22], 'satisfier_signal_ids')
        local c13 = nil
        local c14 = nil
        local c15 = nil
        local c16 = nil
        local c17 = required(plus(r.version, '1'), 'version')
        w.suspended_at_ms = c0
        w.suspension_id = c1
        w.timeout_at_ms = c2
        w.reason_code = c3
        w.condition = c4
        w.satisfied_set = c5
        w.timeout_behavior = c6
        w.attempt_index = c7
        w.requested_by = c8
        w.resume_policy = c9
        w.continuation_metadata_pointer = c10
        w.primary_waitpoint_id = c11
        w.satisfier_signal_ids = c12
        w.last_signal_at_ms = c13
        w.closer_signal_id = c14
        w.closed_at_ms = c15
        w.close_reason = c16
        w.version = c17
        put(T.ff_suspension_current, pk, w)
      else
        insert(T.ff_suspension_current, pk, row, 2)
      end
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
        event_id = next_number(T.ff_lease_event),
        execution_id = required(n.execution_id, 'execution_id'),
        lease_id = a[6],
        lease_epoch = n.lease_epoch,
        worker_instance_id = a[7],
        event_type = required('revoked', 'event_type'),
        reason = 'suspended',
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_lease_event, pk, row, 4)
    end
    wake('ff_lease_event', '', nil, '')
    do local at = a[14] if at then wake('suspension_timeout', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
