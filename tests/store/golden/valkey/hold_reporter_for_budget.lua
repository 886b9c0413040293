-- hold_reporter_for_budget(partition_key, execution_id, version, lease_id, now, detail, blocked_on, worker_instance_id, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and same(r.ownership_state, 'leased') and same(r.current_lease_id, a[5]) and less(now(), r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(now(), r.attempt_timeout_at_ms))) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[6], 'last_mutation_at')
      local c2 = required(a[6], 'last_transition_at')
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
      local c13 = required('blocked_by_budget', 'eligibility_state')
      local c14 = required('waiting_for_budget', 'blocking_reason')
      local c15 = required(a[7], 'blocking_detail')
      local c16 = required('none', 'terminal_outcome')
      local c17 = required('rate_limited', 'public_state')
      local c18 = a[8]
      local c19 = required('attempt_interrupted', 'attempt_state')
      local c20 = 'budget'
      local c21 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c22 = until_(b.attempt_timeout_at_ms)
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
      w.blocked_on = c18
      w.attempt_state = c19
      w.interrupt_cause = c20
      w.lease_epoch = c21
      w.attempt_timeout_remaining_ms = c22
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
        local c1 = a[6]
        local c2 = nil
        local c3 = required(n.lease_epoch, 'lease_epoch')
        local c4 = n.attempt_timeout_remaining_ms
        w.attempt_state = c0
        w.suspended_at_ms = c1
        w.lease_expires_at_ms = c2
        w.lease_epoch = c3
        w.attempt_timeout_remaining_ms = c4
        put(T.ff_attempt, pk, w)
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
        lease_id = a[5],
        lease_epoch = n.lease_epoch,
        worker_instance_id = a[9],
        event_type = required('revoked', 'event_type'),
        reason = 'budget',
        occurred_at_ms = required(a[6], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_lease_event, pk, row, 3)
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('budget_breached', 'event_type'),
        details = a[10],
        occurred_at_ms = required(a[6], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 4)
    end
    wake('ff_lease_event', '', nil, '')
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
