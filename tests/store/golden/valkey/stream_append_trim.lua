-- stream_append_trim(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames, trim_durable, trim_ts_ms, trim_summary, trim_best_effort)
local function is_met_0(r, a, b, n, time) return r and same(r.lease_epoch, a[6]) and same(r.attempt_index, a[4]) and same(r.current_lease_id, a[7]) and same(r.current_worker_instance_id, a[8]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) end
local constant_1 = { 'frame_count', 'total_bytes', 'last_ts_ms', 'last_seq', 'durable_count', 'has_durable_frame', 'durable_trimmed', 'summary_count', 'summary_trimmed', 'live_count', 'live_trimmed', 'ema_rate_hz', 'last_append_ts_ms', 'maxlen_applied_last', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. int(a[4])
      local r = fetch(T.ff_stream_meta, pk)
      if not (r and same(r.version, a[5]) and (a[2] ~= nil and a[3] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[2]) .. uuid(a[3])), a, b, n, time))) then refuse(0) end
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
      local s, k, u, j = {}, 0, {}, 0
      if r.frame_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'UCd' else k = k + 2 s[k - 1], s[k] = 'UCd', c0 end end
      if r.total_bytes ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'y3W' else k = k + 2 s[k - 1], s[k] = 'y3W', c1 end end
      if r.last_ts_ms ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'sTh' else k = k + 2 s[k - 1], s[k] = 'sTh', c2 end end
      if r.last_seq ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'PJ8' else k = k + 2 s[k - 1], s[k] = 'PJ8', c3 end end
      if r.durable_count ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'zq7' else k = k + 2 s[k - 1], s[k] = 'zq7', c4 end end
      if r.has_durable_frame ~= c5 then if c5 == '0' then j = j + 1 u[j] = 'vKq' else k = k + 2 s[k - 1], s[k] = 'vKq', c5 end end
      if r.durable_trimmed ~= c6 then if c6 == '0' then j = j + 1 u[j] = 'Nq3' else k = k + 2 s[k - 1], s[k] = 'Nq3', c6 end end
      if r.summary_count ~= c7 then if c7 == '0' then j = j + 1 u[j] = '67l' else k = k + 2 s[k - 1], s[k] = '67l', c7 end end
      if r.summary_trimmed ~= c8 then if c8 == '0' then j = j + 1 u[j] = 'RYw' else k = k + 2 s[k - 1], s[k] = 'RYw', c8 end end
      if r.live_count ~= c9 then if c9 == '0' then j = j + 1 u[j] = 'xR8' else k = k + 2 s[k - 1], s[k] = 'xR8', c9 end end
      if r.live_trimmed ~= c10 then if c10 == '0' then j = j + 1 u[j] = 'nV6' else k = k + 2 s[k - 1], s[k] = 'nV6', c10 end end
      if r.ema_rate_hz ~= c11 then if c11 == nil then j = j + 1 u[j] = '2Jw' else k = k + 2 s[k - 1], s[k] = '2Jw', c11 end end
      if r.last_append_ts_ms ~= c12 then if c12 == nil then j = j + 1 u[j] = '9q6' else k = k + 2 s[k - 1], s[k] = '9q6', c12 end end
      if r.maxlen_applied_last ~= c13 then if c13 == nil then j = j + 1 u[j] = 'E3F' else k = k + 2 s[k - 1], s[k] = 'E3F', c13 end end
      if r.version ~= c14 then if c14 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c14 end end
      note_change(T.ff_stream_meta, pk, r, constant_1, { frame_count = r.frame_count, total_bytes = r.total_bytes, last_ts_ms = r.last_ts_ms, last_seq = r.last_seq, durable_count = r.durable_count, has_durable_frame = r.has_durable_frame, durable_trimmed = r.durable_trimmed, summary_count = r.summary_count, summary_trimmed = r.summary_trimmed, live_count = r.live_count, live_trimmed = r.live_trimmed, ema_rate_hz = r.ema_rate_hz, last_append_ts_ms = r.last_append_ts_ms, maxlen_applied_last = r.maxlen_applied_last, version = r.version })
      r.frame_count = c0
      r.total_bytes = c1
      r.last_ts_ms = c2
      r.last_seq = c3
      r.durable_count = c4
      r.has_durable_frame = c5
      r.durable_trimmed = c6
      r.summary_count = c7
      r.summary_trimmed = c8
      r.live_count = c9
      r.live_trimmed = c10
      r.ema_rate_hz = c11
      r.last_append_ts_ms = c12
      r.maxlen_applied_last = c13
      r.version = c14
      change(T.ff_stream_meta, pk, s, u)
      n = r
    end
    for _, it in ipairs(a[23]) do
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_attempt_index = required(a[4], 'attempt_index')
      local v_ts_ms = required(it[1], 'ts_ms')
      local v_seq = required(it[2], 'seq')
      local v_mode = required(it[3], 'mode')
      local v_number = required(it[4], 'number')
      local v_mode_number = required(it[5], 'mode_number')
      local v_client_seq = it[6]
      local v_expires_at_ms = it[7]
      local v_created_at_ms = required(time, 'created_at_ms')
      local v_fields = required(it[8], 'fields')
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. int(v_attempt_index) .. int(v_ts_ms) .. int(v_seq)
      if exists(T.ff_stream_frame, pk) then refuse(1) end
      local h0, o0
      if (v_mode ~= nil and v_mode ~= 'durable') then h0, o0 = int(v_partition_key) .. uuid(v_execution_id) .. int(v_attempt_index) .. word(v_mode), int(v_mode_number) .. pk end
      local h1, o1
      if v_client_seq ~= nil then h1, o1 = int(v_partition_key) .. uuid(v_execution_id) .. int(v_attempt_index), int(v_client_seq) .. pk end
      local h2, o2
      if v_expires_at_ms ~= nil then h2, o2 = '', int(v_expires_at_ms) .. uuid(v_execution_id) .. int(v_attempt_index) .. int(v_ts_ms) .. int(v_seq) .. pk end
      local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'oxR', v_attempt_index, 'n7i', v_ts_ms, '59c', v_seq, 'IaX', v_number, 'aft', v_mode_number, 'yVc', v_created_at_ms }, 16
      if v_mode ~= 'durable' then k = k + 2 s[k - 1], s[k] = 'pdl', v_mode end
      if v_client_seq ~= nil then k = k + 2 s[k - 1], s[k] = 'dd1', v_client_seq end
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      if v_fields ~= '{}' then k = k + 2 s[k - 1], s[k] = 'oU2', v_fields end
      make(T.ff_stream_frame, pk, s)
      if o0 then add(I.passing_frames, h0, o0) end
      if o1 then add(I.frames_by_caller, h1, o1) end
      if o2 then add(I.expiring_frames, h2, o2) end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[4] ~= nil then
        each_of_table(T.ff_stream_frame, int(a[2]) .. uuid(a[3]) .. int(a[4]), function(pk, r) if same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.attempt_index, a[4]) and r.mode == 'durable' and up_to(r.mode_number, a[24]) and up_to(r.ts_ms, a[25]) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_stream_frame, pk)
        erase(T.ff_stream_frame, pk)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[4] ~= nil then
        each_of_table(T.ff_stream_frame, int(a[2]) .. uuid(a[3]) .. int(a[4]), function(pk, r) if same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.attempt_index, a[4]) and r.mode == 'summary' and up_to(r.mode_number, a[26]) and (r.mode ~= nil and r.mode ~= 'durable') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_stream_frame, pk)
        erase(T.ff_stream_frame, pk)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[4] ~= nil then
        each_of_table(T.ff_stream_frame, int(a[2]) .. uuid(a[3]) .. int(a[4]), function(pk, r) if same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.attempt_index, a[4]) and r.mode == 'best_effort' and up_to(r.mode_number, a[27]) and (r.mode ~= nil and r.mode ~= 'durable') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_stream_frame, pk)
        erase(T.ff_stream_frame, pk)
      end
    end
    wake('frames', 'u', a[3], '')
    return { 1 }
  end,
}
