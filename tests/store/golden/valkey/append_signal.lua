-- append_signal(partition_key, execution_id, version, now, satisfied_set, satisfier_signal_ids, waitpoint_id, signals_trimmed, signal_id, waitpoint_key, suspension_id, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag)
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
      w.version = c0
      w.last_mutation_at = c1
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
        local c0 = required(a[6], 'satisfied_set')
        local c1 = required(a[7], 'satisfier_signal_ids')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        w.satisfied_set = c0
        w.satisfier_signal_ids = c1
        w.last_signal_at_ms = c2
        w.version = c3
        put(T.ff_suspension_current, pk, w)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[8] ~= nil then
        local pk = int(a[2]) .. uuid(a[8])
        local r = fetch(T.ff_waitpoint_pending, pk)
        if r and same(r.partition_key, a[2]) and same(r.waitpoint_id, a[8]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local w
        w = copy(r)
        local c0 = required(plus(r.signal_count, '1'), 'signal_count')
        local c1 = required(a[9], 'signals_trimmed')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        w.signal_count = c0
        w.signals_trimmed = c1
        w.last_signal_at_ms = c2
        w.version = c3
        put(T.ff_waitpoint_pending, pk, w)
      end
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        signal_id = required(a[10], 'signal_id'),
        waitpoint_id = required(a[8], 'waitpoint_id'),
        waitpoint_key = required(a[11], 'waitpoint_key'),
        suspension_id = a[12],
        attempt_index = required(a[13], 'attempt_index'),
        signal_name = required(a[14], 'signal_name'),
        signal_category = required(a[15], 'signal_category'),
        source_type = required(a[16], 'source_type'),
        source_identity = required(a[17], 'source_identity'),
        correlation_id = required(a[18], 'correlation_id'),
        payload_encoding = a[19],
        target_scope = required(a[20], 'target_scope'),
        idempotency_key = a[21],
        created_at_ms = required(a[22], 'created_at_ms'),
        accepted_at_ms = required(a[5], 'accepted_at_ms'),
        observed_effect = required(a[23], 'observed_effect'),
        matched = required(a[24], 'matched'),
        payload = a[25],
        comment = required(a[26], 'comment'),
        link = required(a[27], 'link'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. uuid(row.signal_id)
      local r = fetch(T.ff_signal, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[8], 'waitpoint_id')
        local c1 = required(a[11], 'waitpoint_key')
        local c2 = a[12]
        local c3 = required(a[13], 'attempt_index')
        local c4 = required(a[14], 'signal_name')
        local c5 = required(a[15], 'signal_category')
        local c6 = required(a[16], 'source_type')
        local c7 = required(a[17], 'source_identity')
        local c8 = required(a[18], 'correlation_id')
        local c9 = a[19]
        local c10 = required(a[20], 'target_scope')
        local c11 = a[21]
        local c12 = required(a[22], 'created_at_ms')
        local c13 = required(a[23], 'observed_effect')
        local c14 = required(a[24], 'matched')
        local c15 = a[25]
        local c16 = required(a[26], 'comment')
        local c17 = required(a[27], 'link')
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
        insert(T.ff_signal, pk, row, 3)
      end
    end
    do
      local row = {
        event_id = next_number(T.ff_signal_event),
        execution_id = required(a[3], 'execution_id'),
        signal_id = required(a[10], 'signal_id'),
        waitpoint_id = required(a[8], 'waitpoint_id'),
        source_identity = a[17],
        event_type = required(a[23], 'event_type'),
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(a[2], 'partition_key'),
        namespace = a[28],
        instance_tag = a[29],
      }
      local pk = int(row.event_id)
      insert(T.ff_signal_event, pk, row, 4)
    end
    wake('ff_signal_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
