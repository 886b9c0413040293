-- remember_usage(budget_id, key, outcome, now, expires_at_ms)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_budget_id = required(a[2], 'budget_id')
      local v_dedup_key = required(a[3], 'dedup_key')
      local v_outcome_json = required(a[4], 'outcome_json')
      local v_applied_at_ms = required(a[5], 'applied_at_ms')
      local v_expires_at_ms = required(a[6], 'expires_at_ms')
      local pk = uuid(v_budget_id) .. word(v_dedup_key)
      if exists(T.ff_budget_usage_dedup, pk) then refuse(0) end
      local h0, o0 = '', int(v_expires_at_ms) .. uuid(v_budget_id) .. word(v_dedup_key) .. pk
      local s, k = { 'Qyy', v_budget_id, 'vJy', v_dedup_key, '7Y5', v_applied_at_ms, 'tP9', v_expires_at_ms }, 8
      if v_outcome_json ~= '{}' then k = k + 2 s[k - 1], s[k] = 'K9m', v_outcome_json end
      make(T.ff_budget_usage_dedup, pk, s)
      add(I.usage_dedup_expiry, h0, o0)
    end
    return { 1 }
  end,
}
