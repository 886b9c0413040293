-- stream_open(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames)
local function is_met_0(r, a, b, n, time) return r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) end
return {
  run = function(a)
    local time, b, n = now()
    do
      if not ((a[2] ~= nil and a[3] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[2]) .. uuid(a[3])), a, b, n, time))) then refuse(0) end
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_attempt_index = required(a[5], 'attempt_index')
      local v_created_at_ms = required(time, 'created_at_ms')
      local v_frame_count = required(a[8], 'frame_count')
      local v_total_bytes = required(a[9], 'total_bytes')
      local v_last_ts_ms = required(a[10], 'last_ts_ms')
      local v_last_seq = required(a[11], 'last_seq')
      local v_has_durable_frame = required(a[13], 'has_durable_frame')
      local v_durable_count = required(a[12], 'durable_count')
      local v_durable_trimmed = required(a[14], 'durable_trimmed')
      local v_summary_count = required(a[15], 'summary_count')
      local v_summary_trimmed = required(a[16], 'summary_trimmed')
      local v_live_count = required(a[17], 'live_count')
      local v_live_trimmed = required(a[18], 'live_trimmed')
      local v_ema_rate_hz = a[19]
      local v_last_append_ts_ms = a[20]
      local v_maxlen_applied_last = a[21]
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. int(v_attempt_index)
      if exists(T.ff_stream_meta, pk) then refuse(0) end
      local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'oxR', v_attempt_index, 'yVc', v_created_at_ms, 'zQs', '1' }, 10
      if v_frame_count ~= '0' then k = k + 2 s[k - 1], s[k] = 'UCd', v_frame_count end
      if v_total_bytes ~= '0' then k = k + 2 s[k - 1], s[k] = 'y3W', v_total_bytes end
      if v_last_ts_ms ~= '0' then k = k + 2 s[k - 1], s[k] = 'sTh', v_last_ts_ms end
      if v_last_seq ~= '0' then k = k + 2 s[k - 1], s[k] = 'PJ8', v_last_seq end
      if v_has_durable_frame ~= '0' then k = k + 2 s[k - 1], s[k] = 'vKq', v_has_durable_frame end
      if v_durable_count ~= '0' then k = k + 2 s[k - 1], s[k] = 'zq7', v_durable_count end
      if v_durable_trimmed ~= '0' then k = k + 2 s[k - 1], s[k] = 'Nq3', v_durable_trimmed end
      if v_summary_count ~= '0' then k = k + 2 s[k - 1], s[k] = '67l', v_summary_count end
      if v_summary_trimmed ~= '0' then k = k + 2 s[k - 1], s[k] = 'RYw', v_summary_trimmed end
      if v_live_count ~= '0' then k = k + 2 s[k - 1], s[k] = 'xR8', v_live_count end
      if v_live_trimmed ~= '0' then k = k + 2 s[k - 1], s[k] = 'nV6', v_live_trimmed end
      if v_ema_rate_hz ~= nil then k = k + 2 s[k - 1], s[k] = '2Jw', v_ema_rate_hz end
      if v_last_append_ts_ms ~= nil then k = k + 2 s[k - 1], s[k] = '9q6', v_last_append_ts_ms end
      if v_maxlen_applied_last ~= nil then k = k + 2 s[k - 1], s[k] = 'E3F', v_maxlen_applied_last end
      make(T.ff_stream_meta, pk, s)
    end
    for _, it in ipairs(a[22]) do
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_attempt_index = required(a[5], 'attempt_index')
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
    wake('frames', 'u', a[3], '')
    return { 1 }
  end,
}
