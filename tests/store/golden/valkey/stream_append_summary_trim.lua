-- stream_append_summary_trim(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames, document, summary_version, trim_durable, trim_ts_ms, trim_summary, trim_best_effort)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3]) .. int(a[4])
      local r = fetch(T.ff_stream_meta, pk)
      if not (r and same(r.version, a[5]) and (function() local found = {} if a[2] ~= nil and a[3] ~= nil then local pk = int(a[2]) .. uuid(a[3]) local r = fetch(T.ff_exec_core, pk) if r and same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.lease_epoch, a[6]) and same(r.attempt_index, a[4]) and same(r.current_lease_id, a[7]) and same(r.current_worker_instance_id, a[8]) and same(r.lifecycle_phase, 'active') and same(r.ownership_state, 'leased') and less(now(), r.lease_expires_at_ms) then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[9], 'frame_count')
      local c1 = required(a[10], 'total_bytes')
      local c2 = required(a[11], 'last_ts_ms')
      local c3 = required(a[12], 'last_seq')
      local c4 = required(a[13], 'durable_count')
      local c5 = required(a[14], 'has_durable_frame')
      local c6 = required(a[15], 'durable_trimmed')
      local c7 = required(a[16], 'summary_count')
      local c8 = required(a[17], 'summary_trimmed')
      local c9 = required(a[18], 'live_count')
      local c10 = required(a[19], 'live_trimmed')
      local c11 = a[20]
      local c12 = a[21]
      local c13 = a[22]
      local c14 = required(plus(r.version, '1'), 'version')
      w.frame_count = c0
      w.total_bytes = c1
      w.last_ts_ms = c2
      w.last_seq = c3
      w.durable_count = c4
      w.has_durable_frame = c5
      w.durable_trimmed = c6
      w.summary_count = c7
      w.summary_trimmed = c8
      w.live_count = c9
      w.live_trimmed = c10
      w.ema_rate_hz = c11
      w.last_append_ts_ms = c12
      w.maxlen_applied_last = c13
      w.version = c14
      put(T.ff_stream_meta, pk, w)
      n = w
    end
    for _, it in ipairs(a[23]) do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        attempt_index = required(a[4], 'attempt_index'),
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
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        attempt_index = required(a[4], 'attempt_index'),
        document_json = required(a[24], 'document_json'),
        version = required(a[25], 'version'),
        patch_kind = required('json-merge-patch', 'patch_kind'),
        last_updated_ms = required(now(), 'last_updated_ms'),
        first_applied_ms = required(now(), 'first_applied_ms'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. int(row.attempt_index)
      local r = fetch(T.ff_stream_summary, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[24], 'document_json')
        local c1 = required(a[25], 'version')
        local c2 = required(now(), 'last_updated_ms')
        w.document_json = c0
        w.version = c1
        w.last_updated_ms = c2
        put(T.ff_stream_summary, pk, w)
      else
        insert(T.ff_stream_summary, pk, row, 2)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[4] ~= nil then
        each_of_table(T.ff_stream_frame, int(a[2]) .. uuid(a[3]) .. int(a[4]), function(pk, r) if same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.attempt_index, a[4]) and same(r.mode, 'durable') and up_to(r.mode_number, a[26]) and up_to(r.ts_ms, a[27]) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do put(T.ff_stream_frame, pk, false) end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[4] ~= nil then
        each_of_table(T.ff_stream_frame, int(a[2]) .. uuid(a[3]) .. int(a[4]), function(pk, r) if same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.attempt_index, a[4]) and same(r.mode, 'summary') and up_to(r.mode_number, a[28]) and differs(r.mode, 'durable') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do put(T.ff_stream_frame, pk, false) end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[4] ~= nil then
        each_of_table(T.ff_stream_frame, int(a[2]) .. uuid(a[3]) .. int(a[4]), function(pk, r) if same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.attempt_index, a[4]) and same(r.mode, 'best_effort') and up_to(r.mode_number, a[29]) and differs(r.mode, 'durable') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do put(T.ff_stream_frame, pk, false) end
    end
    wake('frames', 'u', a[3], '')
    return row_answer(0, {  })
  end,
}
