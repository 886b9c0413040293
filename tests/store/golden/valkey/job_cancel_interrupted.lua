-- job_cancel_interrupted(partition_key, execution_id, version, now, reason, source, lease_epoch, attempt_index, attempt_reason, details)
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
      local c3 = nil
      local c4 = nil
      local c5 = nil
      local c6 = nil
      local c7 = nil
      local c8 = nil
      local c9 = nil
      local c10 = nil
      local c11 = nil
      local c12 = nil
      local c13 = plus(now(), b.retention_ttl_ms)
      local c14 = required('cancelled', 'lifecycle_phase')
      local c15 = required('unowned', 'ownership_state')
      local c16 = required('not_applicable', 'eligibility_state')
      local c17 = required('none', 'blocking_reason')
      local c18 = required('', 'blocking_detail')
      local c19 = required('cancelled', 'terminal_outcome')
      local c20 = required('cancelled', 'public_state')
      local c21 = nil
      local c22 = once(r.terminal_at_ms, a[5])
      local c23 = once(r.cancellation_reason, a[6])
      local c24 = once(r.cancelled_by, a[7])
      local c25 = a[8]
      local c26 = a[9]
      local c27 = required('attempt_terminal', 'attempt_state')
      local c28 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c29 = nil
      local c30 = nil
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
      w.reserved_for = c11
      w.reserved_until_ms = c12
      w.retain_until_ms = c13
      w.lifecycle_phase = c14
      w.ownership_state = c15
      w.eligibility_state = c16
      w.blocking_reason = c17
      w.blocking_detail = c18
      w.terminal_outcome = c19
      w.public_state = c20
      w.delay_until_ms = c21
      w.terminal_at_ms = c22
      w.cancellation_reason = c23
      w.cancelled_by = c24
      w.closing_epoch = c25
      w.closing_attempt_index = c26
      w.attempt_state = c27
      w.lease_epoch = c28
      w.current_suspension_id = c29
      w.current_waitpoint_id = c30
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
        local c0 = required('ended_cancelled', 'attempt_state')
        local c1 = 'cancelled'
        local c2 = a[5]
        local c3 = nil
        local c4 = a[10]
        local c5 = nil
        local c6 = required(n.lease_epoch, 'lease_epoch')
        w.attempt_state = c0
        w.outcome = c1
        w.terminal_at_ms = c2
        w.lease_expires_at_ms = c3
        w.failure_reason = c4
        w.worker_instance_id = c5
        w.lease_epoch = c6
        put(T.ff_attempt, pk, w)
      end
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
        local c1 = 'cancelled'
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
        each_row(I.waitpoints_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and (r.state == 'pending' or r.state == 'active') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local w
        w = copy(r)
        local c0 = required('closed', 'state')
        local c1 = a[5]
        local c2 = 'cancelled'
        local c3 = required(plus(r.version, '1'), 'version')
        w.state = c0
        w.closed_at_ms = c1
        w.close_reason = c2
        w.version = c3
        put(T.ff_waitpoint_pending, pk, w)
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
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('cancelled', 'event_type'),
        details = a[11],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 5)
    end
    do
      local row = {
        event_id = next_number(T.ff_completion_event),
        execution_id = required(n.execution_id, 'execution_id'),
        flow_id = n.flow_id,
        outcome = required('cancelled', 'outcome'),
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        committed_at_ms = required(now(), 'committed_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_completion_event, pk, row, 6)
    end
    wake('ff_operator_event', '', nil, '')
    wake('ff_completion_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
