-- timeout_retry_later(partition_key, execution_id, version, reason, attempt_index, next_policy, delay_ms, because, category, lease_id, worker_instance_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and same(r.ownership_state, 'leased')) then refuse(0) end
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
      local c11 = a[5]
      local c12 = a[5]
      local c13 = required('pending_retry_attempt', 'attempt_state')
      local c14 = required(plus(r.retry_count, '1'), 'retry_count')
      local c15 = nil
      local c16 = a[5]
      local c17 = a[6]
      local c18 = a[7]
      local c19 = required('runnable', 'lifecycle_phase')
      local c20 = required('unowned', 'ownership_state')
      local c21 = required('not_eligible_until_time', 'eligibility_state')
      local c22 = required('waiting_for_retry_backoff', 'blocking_reason')
      local c23 = required(text(3, 'retry backoff until ', plus(now(), a[8]), a[9]), 'blocking_detail')
      local c24 = required('none', 'terminal_outcome')
      local c25 = required('delayed', 'public_state')
      local c26 = plus(now(), a[8])
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
      w.attempt_state = c13
      w.retry_count = c14
      w.current_attempt_id = c15
      w.pending_retry_reason = c16
      w.pending_previous_attempt_index = c17
      w.pending_attempt_policy = c18
      w.lifecycle_phase = c19
      w.ownership_state = c20
      w.eligibility_state = c21
      w.blocking_reason = c22
      w.blocking_detail = c23
      w.terminal_outcome = c24
      w.public_state = c25
      w.delay_until_ms = c26
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
        local c1 = 'retry'
        local c2 = now()
        local c3 = nil
        local c4 = a[5]
        local c5 = a[10]
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
        lease_id = a[11],
        lease_epoch = n.lease_epoch,
        worker_instance_id = a[12],
        event_type = required('revoked', 'event_type'),
        reason = 'retry',
        occurred_at_ms = required(now(), 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_lease_event, pk, row, 2)
    end
    wake('ff_lease_event', '', nil, '')
    do local at = n.delay_until_ms if at then wake('delayed', '', nil, at) end end
    return row_answer(2, { n.delay_until_ms, n.total_attempt_count })
  end,
}
