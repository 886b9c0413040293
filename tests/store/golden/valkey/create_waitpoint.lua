-- create_waitpoint(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names, approvers)
local constant_0 = { 'last_mutation_at' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(time, r.attempt_timeout_at_ms))) then refuse(0) end
      local c0 = required(time, 'last_mutation_at')
      local s, k, u, j = {}, 0, {}, 0
      if r.last_mutation_at ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c0 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { last_mutation_at = r.last_mutation_at })
      r.last_mutation_at = c0
      change(T.ff_exec_core, pk, s, u)
      n = r
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_waitpoint_id = required(a[8], 'waitpoint_id')
      local v_execution_id = required(a[3], 'execution_id')
      local v_token_kid = required(a[9], 'token_kid')
      local v_token_digest = required(a[10], 'token_digest')
      local v_created_at_ms = required(a[11], 'created_at_ms')
      local v_expires_at_ms = a[12]
      local v_waitpoint_key = required(a[13], 'waitpoint_key')
      local v_required_signal_names = required(a[15], 'required_signal_names')
      local v_attempt_index = required(a[5], 'attempt_index')
      local v_payload_schema = a[14]
      local v_approvers = required(a[16], 'approvers')
      local pk = int(v_partition_key) .. uuid(v_waitpoint_id)
      if exists(T.ff_waitpoint_pending, pk) then refuse(1) end
      local h0, o0 = int(v_partition_key) .. uuid(v_execution_id), uuid(v_waitpoint_id) .. pk
      local h1, o1
      if v_expires_at_ms ~= nil then h1, o1 = '', int(v_expires_at_ms) .. uuid(v_waitpoint_id) .. pk end
      local h2, o2 = '', int(v_created_at_ms) .. uuid(v_waitpoint_id) .. pk
      local s, k = { 'WYb', v_partition_key, 'mbj', v_waitpoint_id, '6Pr', v_execution_id, 'YeM', v_token_kid, 'itU', v_token_digest, 'yVc', v_created_at_ms }, 12
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      if v_waitpoint_key ~= '' then k = k + 2 s[k - 1], s[k] = 'MCh', v_waitpoint_key end
      if v_required_signal_names ~= '[]' then k = k + 2 s[k - 1], s[k] = 'iM8', v_required_signal_names end
      if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
      if v_payload_schema ~= nil then k = k + 2 s[k - 1], s[k] = 'l1t', v_payload_schema end
      if v_approvers ~= '[]' then k = k + 2 s[k - 1], s[k] = 'nXv', v_approvers end
      make(T.ff_waitpoint_pending, pk, s)
      add(I.waitpoints_of, h0, o0)
      if o1 then add(I.waitpoint_expiry, h1, o1) end
      add(I.open_waitpoints, h2, o2)
    end
    wake('waitpoint_expiry', '', '', a[12])
    return { 1 }
  end,
}
