-- claim(lane_id, namespace, capabilities, worker_id, worker_instance_id, lease_ttl_ms, renew_within_ms)
return {
  sweep = function(a, limit)
    local picked, b, n = {}, {}, {}
    if limit <= 0 then return {} end
    each_row(I.ready, word(a[2]) .. word(a[3]) .. word(''), nil, nil, false, function(pk, r)
      r = whole(T.ff_exec_core, pk)
      if covered(r.required_capabilities, a[4]) and (r.reserved_until_ms == nil or less(r.reserved_until_ms, now()) or same(r.reserved_for, a[5])) and not (function() local found = {} if a[2] ~= nil then local pk = word(a[2]) local r = fetch(T.ff_lane_registry, pk) if r and same(r.lane_id, a[2]) and (r.state == 'paused' or r.state == 'disabled') then found[#found + 1] = pk end end return #found > 0 end)() then picked[#picked + 1] = pk end
      return #picked >= limit
    end)
    local answers = {}
    for at, pk in ipairs(picked) do
      local r = whole(T.ff_exec_core, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = required(now(), 'last_transition_at')
      local c3 = nil
      local c4 = nil
      local c5 = required('active', 'lifecycle_phase')
      local c6 = required('leased', 'ownership_state')
      local c7 = required('not_applicable', 'eligibility_state')
      local c8 = required('none', 'blocking_reason')
      local c9 = required('', 'blocking_detail')
      local c10 = required('none', 'terminal_outcome')
      local c11 = required('active', 'public_state')
      local c12 = required('running_attempt', 'attempt_state')
      local c13 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c14 = fresh()
      local c15 = once(r.current_attempt_id, fresh())
      local c16 = required(either(b.current_attempt_id == nil, b.total_attempt_count, b.attempt_index), 'attempt_index')
      local c17 = required(either(b.current_attempt_id == nil, plus(r.total_attempt_count, '1'), plus(r.total_attempt_count, '0')), 'total_attempt_count')
      local c18 = a[5]
      local c19 = a[6]
      local c20 = once(r.started_at_ms, now())
      local c21 = now()
      local c22 = now()
      local c23 = plus(now(), a[7])
      local c24 = plus(now(), a[8])
      local c25 = plus(now(), either(b.current_attempt_id == nil, b.attempt_timeout_ms, b.attempt_timeout_remaining_ms))
      local c26 = nil
      local c27 = nil
      local c28 = nil
      local c29 = nil
      local c30 = nil
      local c31 = nil
      local c32 = nil
      local c33 = nil
      local c34 = nil
      local c35 = nil
      local c36 = required(either(same(b.interrupt_cause, 'lease_expired'), plus(r.lease_reclaim_count, '1'), plus(r.lease_reclaim_count, '0')), 'lease_reclaim_count')
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.reserved_for = c3
      w.reserved_until_ms = c4
      w.lifecycle_phase = c5
      w.ownership_state = c6
      w.eligibility_state = c7
      w.blocking_reason = c8
      w.blocking_detail = c9
      w.terminal_outcome = c10
      w.public_state = c11
      w.attempt_state = c12
      w.lease_epoch = c13
      w.current_lease_id = c14
      w.current_attempt_id = c15
      w.attempt_index = c16
      w.total_attempt_count = c17
      w.current_worker_id = c18
      w.current_worker_instance_id = c19
      w.started_at_ms = c20
      w.lease_acquired_at = c21
      w.lease_last_renewed_at = c22
      w.lease_expires_at_ms = c23
      w.lease_renewal_deadline = c24
      w.attempt_timeout_at_ms = c25
      w.lease_expired_at = c26
      w.attempt_timeout_remaining_ms = c27
      w.interrupt_cause = c28
      w.delay_until_ms = c29
      w.pending_retry_reason = c30
      w.pending_replay_reason = c31
      w.pending_replay_requested_by = c32
      w.pending_previous_attempt_index = c33
      w.pending_attempt_policy = c34
      w.blocked_on = c35
      w.lease_reclaim_count = c36
      put(T.ff_exec_core, pk, w)
      n = w
      do
        local row = {
          partition_key = required(n.partition_key, 'partition_key'),
          execution_id = required(n.execution_id, 'execution_id'),
          attempt_index = required(n.attempt_index, 'attempt_index'),
          attempt_id = n.current_attempt_id,
          attempt_type = required(either(same(b.attempt_state, 'pending_retry_attempt'), 'retry', either(same(b.attempt_state, 'pending_replay_attempt'), 'replay', 'initial')), 'attempt_type'),
          attempt_state = required('started', 'attempt_state'),
          worker_id = a[5],
          worker_instance_id = a[6],
          lease_id = n.current_lease_id,
          lease_epoch = required(n.lease_epoch, 'lease_epoch'),
          lease_expires_at_ms = n.lease_expires_at_ms,
          created_at_ms = required(now(), 'created_at_ms'),
          started_at_ms = now(),
          retry_reason = b.pending_retry_reason,
          replay_reason = b.pending_replay_reason,
          replay_requested_by = b.pending_replay_requested_by,
          previous_attempt_index = b.pending_previous_attempt_index,
          attempt_timeout_at_ms = n.attempt_timeout_at_ms,
          policy = b.pending_attempt_policy,
        }
        local pk = int(row.partition_key) .. uuid(row.execution_id) .. int(row.attempt_index)
        local r = fetch(T.ff_attempt, pk)
        local w = row
        if r then
          w = copy(r)
          local c0 = required('started', 'attempt_state')
          local c1 = a[5]
          local c2 = a[6]
          local c3 = n.current_lease_id
          local c4 = required(n.lease_epoch, 'lease_epoch')
          local c5 = n.lease_expires_at_ms
          local c6 = n.attempt_timeout_at_ms
          local c7 = n.current_attempt_id
          local c8 = once(r.started_at_ms, now())
          local c9 = now()
          local c10 = nil
          local c11 = nil
          local c12 = nil
          local c13 = nil
          local c14 = nil
          w.attempt_state = c0
          w.worker_id = c1
          w.worker_instance_id = c2
          w.lease_id = c3
          w.lease_epoch = c4
          w.lease_expires_at_ms = c5
          w.attempt_timeout_at_ms = c6
          w.attempt_id = c7
          w.started_at_ms = c8
          w.resumed_at_ms = c9
          w.suspended_at_ms = c10
          w.suspension_id = c11
          w.outcome = c12
          w.terminal_at_ms = c13
          w.attempt_timeout_remaining_ms = c14
          put(T.ff_attempt, pk, w)
        else
          insert(T.ff_attempt, pk, row, 1)
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
          lease_id = n.current_lease_id,
          lease_epoch = n.lease_epoch,
          worker_instance_id = n.current_worker_instance_id,
          event_type = required('acquired', 'event_type'),
          occurred_at_ms = required(now(), 'occurred_at_ms'),
          partition_key = required(n.partition_key, 'partition_key'),
          namespace = n.namespace,
          instance_tag = n.instance_tag,
        }
        local pk = int(row.event_id)
        insert(T.ff_lease_event, pk, row, 3)
      end
      wake('ff_lease_event', '', nil, '')
      do local at = n.lease_expires_at_ms if at then wake('leased', '', nil, at) end end
      do local at = n.attempt_timeout_at_ms if at then wake('attempt_timeout', '', nil, at) end end
      answers[at] = row_answer(16, { n.partition_key, n.execution_id, n.attempt_index, n.current_attempt_id, n.current_lease_id, n.lease_epoch, n.lease_expires_at_ms, n.lane_id, n.retry_count, n.policy, n.execution_kind, n.payload, n.tags, b.attempt_state, n.attempt_timeout_ms, n.attempt_timeout_at_ms })
    end
    return answers
  end,
}
