-- bind_waitpoint(partition_key, waitpoint_id, execution_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema, now, suspension_id, required_signal_names)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_waitpoint_id = required(a[3], 'waitpoint_id')
      local v_execution_id = required(a[4], 'execution_id')
      local v_token_kid = required(a[5], 'token_kid')
      local v_token_digest = required(a[6], 'token_digest')
      local v_created_at_ms = required(a[7], 'created_at_ms')
      local v_expires_at_ms = a[8]
      local v_waitpoint_key = required(a[9], 'waitpoint_key')
      local v_required_signal_names = required(a[14], 'required_signal_names')
      local v_activated_at_ms = a[12]
      local v_attempt_index = required(a[10], 'attempt_index')
      local v_suspension_id = a[13]
      local v_payload_schema = a[11]
      local pk = int(v_partition_key) .. uuid(v_waitpoint_id)
      if exists(T.ff_waitpoint_pending, pk) then refuse(0) end
      local h0, o0 = int(v_partition_key) .. uuid(v_execution_id), uuid(v_waitpoint_id) .. pk
      local h1, o1 = '', int(v_created_at_ms) .. uuid(v_waitpoint_id) .. pk
      local s, k = { 'WYb', v_partition_key, 'mbj', v_waitpoint_id, '6Pr', v_execution_id, 'YeM', v_token_kid, 'itU', v_token_digest, 'yVc', v_created_at_ms, 'X27', 'active' }, 14
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      if v_waitpoint_key ~= '' then k = k + 2 s[k - 1], s[k] = 'MCh', v_waitpoint_key end
      if v_required_signal_names ~= '[]' then k = k + 2 s[k - 1], s[k] = 'iM8', v_required_signal_names end
      if v_activated_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'qIj', v_activated_at_ms end
      if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
      if v_suspension_id ~= nil then k = k + 2 s[k - 1], s[k] = 'OA3', v_suspension_id end
      if v_payload_schema ~= nil then k = k + 2 s[k - 1], s[k] = 'l1t', v_payload_schema end
      make(T.ff_waitpoint_pending, pk, s)
      add(I.waitpoints_of, h0, o0)
      add(I.open_waitpoints, h1, o1)
    end
    return { 1 }
  end,
}
