-- resume_by_signal(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms, satisfied_set, satisfier_signal_ids, signal_id, waitpoint_id, signals_trimmed, suspension_id, waitpoint_key, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and same(r.lifecycle_phase, 'suspended')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c3 = required('runnable', 'lifecycle_phase')
      local c4 = required('unowned', 'ownership_state')
      local c5 = required(a[6], 'eligibility_state')
      local c6 = required(a[7], 'blocking_reason')
      local c7 = required(a[8], 'blocking_detail')
      local c8 = required('none', 'terminal_outcome')
      local c9 = required(a[9], 'public_state')
      local c10 = nil
      local c11 = nil
      local c12 = a[10]
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
      w.current_suspension_id = c10
      w.current_waitpoint_id = c11
      w.delay_until_ms = c12
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        local pk = int(n.partition_key) .. uuid(n.execution_id)
        local r = fetch(T.ff_suspension_current, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_suspension_current, pk)
        local w
        w = copy(r)
        local c0 = required(a[11], 'satisfied_set')
        local c1 = required(a[12], 'satisfier_signal_ids')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local c4 = a[5]
        local c5 = 'resumed'
        local c6 = a[13]
        w.satisfied_set = c0
        w.satisfier_signal_ids = c1
        w.last_signal_at_ms = c2
        w.version = c3
        w.closed_at_ms = c4
        w.close_reason = c5
        w.closer_signal_id = c6
        put(T.ff_suspension_current, pk, w)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[14] ~= nil then
        local pk = int(a[2]) .. uuid(a[14])
        local r = fetch(T.ff_waitpoint_pending, pk)
        if r and same(r.partition_key, a[2]) and same(r.waitpoint_id, a[14]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local w
        w = copy(r)
        local c0 = required(plus(r.signal_count, '1'), 'signal_count')
        local c1 = required(a[15], 'signals_trimmed')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local c4 = required(plus(r.matched_signal_count, '1'), 'matched_signal_count')
        local c5 = required('closed', 'state')
        local c6 = 'resumed'
        local c7 = a[5]
        local c8 = a[5]
        w.signal_count = c0
        w.signals_trimmed = c1
        w.last_signal_at_ms = c2
        w.version = c3
        w.matched_signal_count = c4
        w.state = c5
        w.close_reason = c6
        w.satisfied_at_ms = c7
        w.closed_at_ms = c8
        put(T.ff_waitpoint_pending, pk, w)
      end
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_row(I.waitpoints_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and (r.state == 'pending' or r.state == 'active') and same(r.suspension_id, a[16]) and differs(r.waitpoint_id, a[14]) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local w
        w = copy(r)
        local c0 = required('closed', 'state')
        local c1 = 'resumed'
        local c2 = a[5]
        local c3 = a[5]
        local c4 = required(plus(r.version, '1'), 'version')
        w.state = c0
        w.close_reason = c1
        w.satisfied_at_ms = c2
        w.closed_at_ms = c3
        w.version = c4
        put(T.ff_waitpoint_pending, pk, w)
      end
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        signal_id = required(a[13], 'signal_id'),
        waitpoint_id = required(a[14], 'waitpoint_id'),
        waitpoint_key = required(a[17], 'waitpoint_key'),
        suspension_id = a[16],
        attempt_index = required(a[18], 'attempt_index'),
        signal_name = required(a[19], 'signal_name'),
        signal_category = required(a[20], 'signal_category'),
        source_type = required(a[21], 'source_type'),
        source_identity = required(a[22], 'source_identity'),
        correlation_id = required(a[23], 'correlation_id'),
        payload_encoding = a[24],
        target_scope = required(a[25], 'target_scope'),
        idempotency_key = a[26],
        created_at_ms = required(a[27], 'created_at_ms'),
        accepted_at_ms = required(a[5], 'accepted_at_ms'),
        observed_effect = required(a[28], 'observed_effect'),
        matched = required(a[29], 'matched'),
        payload = a[30],
        comment = required(a[31], 'comment'),
        link = required(a[32], 'link'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. uuid(row.signal_id)
      local r = fetch(T.ff_signal, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[14], 'waitpoint_id')
        local c1 = required(a[17], 'waitpoint_key')
        local c2 = a[16]
        local c3 = required(a[18], 'attempt_index')
        local c4 = required(a[19], 'signal_name')
        local c5 = required(a[20], 'signal_category')
        local c6 = required(a[21], 'source_type')
        local c7 = required(a[22], 'source_identity')
        local c8 = required(a[23], 'correlation_id')
        local c9 = a[24]
        local c10 = required(a[25], 'target_scope')
        local c11 = a[26]
        local c12 = required(a[27], 'created_at_ms')
        local c13 = required(a[28], 'observed_effect')
        local c14 = required(a[29], 'matched')
        local c15 = a[30]
        local c16 = required(a[31], 'comment')
        local c17 = required(a[32], 'link')
        local c18 = required(a[5], 'accepted_at_ms')
        w.waitpoint_id = c0
        w.waitpoint_key = c1
        w.suspension_id = c2
        w.attempt_index = c3
        w.signal_name = c4
        w.signal_category = c5
        w.source_type = c6
        w.source_identity = c7
        w.correlation_id = c8
        w.payload_encoding = c9
        w.target_scope = c10
        w.idempotency_key = c11
        w.created_at_ms = c12
        w.observed_effect = c13
        w.matched = c14
        w.payload = c15
        w.comment = c16
        w.link = c17
        w.accepted_at_ms = c18
        put(T.ff_signal, pk, w)
      else
        insert(T.ff_signal, pk, row, 4)
      end
    end
    do
      local row = {
        event_id = next_number(T.ff_signal_event),
        execution_id = required(a[3], 'execution_id'),
        signal_id = required(a[13], 'signal_id'),
        waitpoint_id = required(a[14], 'waitpoint_id'),
        source_identity = a[22],
        event_type = required(a[28], 'event_type'),
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(a[2], 'partition_key'),
        namespace = a[33],
        instance_tag = a[34],
      }
      local pk = int(row.event_id)
      insert(T.ff_signal_event, pk, row, 5)
    end
    do
      local row = {
        event_id = next_number(T.ff_completion_event),
        execution_id = required(n.execution_id, 'execution_id'),
        outcome = required('resumable', 'outcome'),
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        committed_at_ms = required(a[5], 'committed_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_completion_event, pk, row, 6)
    end
    wake('ff_signal_event', '', nil, '')
    wake('ff_completion_event', '', nil, '')
    wake('ready', 's', n.lane_id, '')
    do local at = a[10] if at then wake('delayed', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
