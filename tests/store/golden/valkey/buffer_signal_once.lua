-- buffer_signal_once(partition_key, waitpoint_id, waitpoint_version, signals_trimmed, now, execution_id, signal_id, waitpoint_key, suspension_id, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag, dedup_until_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_waitpoint_pending, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.signal_count, '1'), 'signal_count')
      local c1 = required(a[5], 'signals_trimmed')
      local c2 = a[6]
      local c3 = required(plus(r.version, '1'), 'version')
      w.signal_count = c0
      w.signals_trimmed = c1
      w.last_signal_at_ms = c2
      w.version = c3
      put(T.ff_waitpoint_pending, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[7], 'execution_id'),
        signal_id = required(a[8], 'signal_id'),
        waitpoint_id = required(a[3], 'waitpoint_id'),
        waitpoint_key = required(a[9], 'waitpoint_key'),
        suspension_id = a[10],
        attempt_index = required(a[11], 'attempt_index'),
        signal_name = required(a[12], 'signal_name'),
        signal_category = required(a[13], 'signal_category'),
        source_type = required(a[14], 'source_type'),
        source_identity = required(a[15], 'source_identity'),
        correlation_id = required(a[16], 'correlation_id'),
        payload_encoding = a[17],
        target_scope = required(a[18], 'target_scope'),
        idempotency_key = a[19],
        created_at_ms = required(a[20], 'created_at_ms'),
        accepted_at_ms = required(a[6], 'accepted_at_ms'),
        observed_effect = required(a[21], 'observed_effect'),
        matched = required(a[22], 'matched'),
        payload = a[23],
        comment = required(a[24], 'comment'),
        link = required(a[25], 'link'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. uuid(row.signal_id)
      local r = fetch(T.ff_signal, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[3], 'waitpoint_id')
        local c1 = required(a[9], 'waitpoint_key')
        local c2 = a[10]
        local c3 = required(a[11], 'attempt_index')
        local c4 = required(a[12], 'signal_name')
        local c5 = required(a[13], 'signal_category')
        local c6 = required(a[14], 'source_type')
        local c7 = required(a[15], 'source_identity')
        local c8 = required(a[16], 'correlation_id')
        local c9 = a[17]
        local c10 = required(a[18], 'target_scope')
        local c11 = a[19]
        local c12 = required(a[20], 'created_at_ms')
        local c13 = required(a[21], 'observed_effect')
        local c14 = required(a[22], 'matched')
        local c15 = a[23]
        local c16 = required(a[24], 'comment')
        local c17 = required(a[25], 'link')
        local c18 = required(a[6], 'accepted_at_ms')
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
        insert(T.ff_signal, pk, row, 1)
      end
    end
    do
      local row = {
        event_id = next_number(T.ff_signal_event),
        execution_id = required(a[7], 'execution_id'),
        signal_id = required(a[8], 'signal_id'),
        waitpoint_id = required(a[3], 'waitpoint_id'),
        source_identity = a[15],
        event_type = required(a[21], 'event_type'),
        occurred_at_ms = required(a[6], 'occurred_at_ms'),
        partition_key = required(a[2], 'partition_key'),
        namespace = a[26],
        instance_tag = a[27],
      }
      local pk = int(row.event_id)
      insert(T.ff_signal_event, pk, row, 2)
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        waitpoint_id = required(a[3], 'waitpoint_id'),
        idempotency_key = required(a[19], 'idempotency_key'),
        execution_id = required(a[7], 'execution_id'),
        signal_id = required(a[8], 'signal_id'),
        expires_at_ms = required(a[28], 'expires_at_ms'),
      }
      local pk = int(row.partition_key) .. uuid(row.waitpoint_id) .. word(row.idempotency_key)
      local r = fetch(T.ff_signal_dedup, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[7], 'execution_id')
        local c1 = required(a[8], 'signal_id')
        local c2 = required(a[28], 'expires_at_ms')
        w.execution_id = c0
        w.signal_id = c1
        w.expires_at_ms = c2
        put(T.ff_signal_dedup, pk, w)
      else
        insert(T.ff_signal_dedup, pk, row, 3)
      end
    end
    wake('ff_signal_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
