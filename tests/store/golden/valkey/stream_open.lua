-- stream_open(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames)
return {
  run = function(a)
    local b, n = {}, {}
    do
      if not ((function() local found = {} if a[2] ~= nil and a[3] ~= nil then local pk = int(a[2]) .. uuid(a[3]) local r = fetch(T.ff_exec_core, pk) if r and same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and same(r.lifecycle_phase, 'active') and same(r.ownership_state, 'leased') and less(now(), r.lease_expires_at_ms) then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        attempt_index = required(a[5], 'attempt_index'),
        created_at_ms = required(now(), 'created_at_ms'),
        frame_count = required(a[8], 'frame_count'),
        total_bytes = required(a[9], 'total_bytes'),
        last_ts_ms = required(a[10], 'last_ts_ms'),
        last_seq = required(a[11], 'last_seq'),
        has_durable_frame = required(a[13], 'has_durable_frame'),
        durable_count = required(a[12], 'durable_count'),
        durable_trimmed = required(a[14], 'durable_trimmed'),
        summary_count = required(a[15], 'summary_count'),
        summary_trimmed = required(a[16], 'summary_trimmed'),
        live_count = required(a[17], 'live_count'),
        live_trimmed = required(a[18], 'live_trimmed'),
        ema_rate_hz = a[19],
        last_append_ts_ms = a[20],
        maxlen_applied_last = a[21],
        version = required('1', 'version'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. int(row.attempt_index)
      n = insert(T.ff_stream_meta, pk, row, 0)
    end
    for _, it in ipairs(a[22]) do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        attempt_index = required(a[5], 'attempt_index'),
        ts_ms = required(it[1], 'ts_ms'),
        seq = required(it[2], 'seq'),
        mode = required(it[3], 'mode'),
        number = required(it[4], 'number'),
        mode_number = required(it[5], 'mode_number'),
        client_seq = it[6],
        expires_at_ms = it[7],
        created_at_ms = required(now(), 'created_at_ms'),
        fields = required(it[8], 'fields'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. int(row.attempt_index) .. int(row.ts_ms) .. int(row.seq)
      insert(T.ff_stream_frame, pk, row, 1)
    end
    wake('frames', 'u', a[3], '')
    return row_answer(0, {  })
  end,
}
