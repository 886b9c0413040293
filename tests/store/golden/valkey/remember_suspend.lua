-- remember_suspend(partition_key, idempotency_key, execution_id, outcome_json, expires_at_ms, now)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_idempotency_key = required(a[3], 'idempotency_key')
      local v_execution_id = required(a[4], 'execution_id')
      local v_outcome_json = required(a[5], 'outcome_json')
      local v_created_at_ms = required(a[7], 'created_at_ms')
      local v_expires_at_ms = required(a[6], 'expires_at_ms')
      local pk = int(v_partition_key) .. word(v_idempotency_key)
      if exists(T.ff_suspend_dedup, pk) then refuse(0) end
      local h0, o0 = '', int(v_expires_at_ms) .. word(v_idempotency_key) .. pk
      local h1, o1 = int(v_partition_key) .. uuid(v_execution_id), word(v_idempotency_key) .. pk
      local s, k = { 'WYb', v_partition_key, 'zaU', v_idempotency_key, '6Pr', v_execution_id, 'K9m', v_outcome_json, 'yVc', v_created_at_ms, 'tP9', v_expires_at_ms }, 12
      make(T.ff_suspend_dedup, pk, s)
      add(I.suspend_dedup_expiry, h0, o0)
      add(I.suspend_dedup_of, h1, o1)
    end
    return { 1 }
  end,
}
