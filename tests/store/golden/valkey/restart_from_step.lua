-- restart_from_step(partition_key, execution_id, version, now, attempt_id, replay_reason, replay_requested_by, deadline_at_ms, deadline_origin, raw_fields, position, details)
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
      local c3 = required('pending_replay_attempt', 'attempt_state')
      local c4 = required(plus(r.replay_count, '1'), 'replay_count')
      local c5 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c6 = a[6]
      local c7 = b.attempt_timeout_ms
      local c8 = a[7]
      local c9 = a[8]
      local c10 = b.attempt_index
      local c11 = a[9]
      local c12 = a[10]
      local c13 = required(a[11], 'raw_fields')
      local c14 = nil
      local c15 = nil
      local c16 = nil
      local c17 = nil
      local c18 = nil
      local c19 = nil
      local c20 = nil
      local c21 = nil
      local c22 = nil
      local c23 = nil
      local c24 = nil
      local c25 = nil
      local c26 = required('runnable', 'lifecycle_phase')
      local c27 = required('unowned', 'ownership_state')
      local c28 = required('eligible_now', 'eligibility_state')
      local c29 = required('waiting_for_worker', 'blocking_reason')
      local c30 = required('', 'blocking_detail')
      local c31 = required('none', 'terminal_outcome')
      local c32 = required('waiting', 'public_state')
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.attempt_state = c3
      w.replay_count = c4
      w.lease_epoch = c5
      w.current_attempt_id = c6
      w.attempt_timeout_remaining_ms = c7
      w.pending_replay_reason = c8
      w.pending_replay_requested_by = c9
      w.pending_previous_attempt_index = c10
      w.deadline_at_ms = c11
      w.deadline_origin = c12
      w.raw_fields = c13
      w.terminal_at_ms = c14
      w.retain_until_ms = c15
      w.result = c16
      w['\1result'] = c16 == nil
      w.result_encoding = c17
      w.cancellation_reason = c18
      w.cancelled_by = c19
      w.failure_reason = c20
      w.closing_epoch = c21
      w.closing_attempt_index = c22
      w.interrupt_cause = c23
      w.pending_retry_reason = c24
      w.blocked_on = c25
      w.lifecycle_phase = c26
      w.ownership_state = c27
      w.eligibility_state = c28
      w.blocking_reason = c29
      w.blocking_detail = c30
      w.terminal_outcome = c31
      w.public_state = c32
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
        local c0 = required('created', 'attempt_state')
        local c1 = required('replay', 'attempt_type')
        local c2 = a[6]
        local c3 = required(n.lease_epoch, 'lease_epoch')
        local c4 = a[7]
        local c5 = a[8]
        local c6 = n.attempt_index
        local c7 = nil
        local c8 = nil
        local c9 = nil
        local c10 = nil
        local c11 = nil
        local c12 = nil
        local c13 = nil
        w.attempt_state = c0
        w.attempt_type = c1
        w.attempt_id = c2
        w.lease_epoch = c3
        w.replay_reason = c4
        w.replay_requested_by = c5
        w.replayed_from_attempt_index = c6
        w.outcome = c7
        w.terminal_at_ms = c8
        w.failure_reason = c9
        w.failure_category = c10
        w.worker_id = c11
        w.worker_instance_id = c12
        w.lease_expires_at_ms = c13
        put(T.ff_attempt, pk, w)
      end
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.flow_id ~= nil then
        local pk = int(n.partition_key) .. uuid(n.flow_id)
        local r = fetch(T.ff_flow_core, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.flow_id, n.flow_id) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_flow_core, pk)
        local w
        w = copy(r)
        local c0 = nil
        local c1 = required(plus(r.version, '1'), 'version')
        w.settled_at_ms = c0
        w.version = c1
        put(T.ff_flow_core, pk, w)
      end
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_of_table(T.ff_step, int(n.partition_key) .. uuid(n.execution_id), function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and up_to(a[12], r.position) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do put(T.ff_step, pk, false) end
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('replayed', 'event_type'),
        details = a[13],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 4)
    end
    wake('ff_operator_event', '', nil, '')
    wake('ready', 's', n.lane_id, '')
    do local at = n.deadline_at_ms if at then wake('deadline', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
