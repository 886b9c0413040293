-- remember_suspend_again(partition_key, idempotency_key, outcome_json, now, expires_at_ms)
local constant_0 = { 'outcome_json', 'created_at_ms', 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. word(a[3])
      local r = fetch(T.ff_suspend_dedup, pk)
      if not (r) then refuse(0) end
      local c0 = required(a[4], 'outcome_json')
      local c1 = required(a[5], 'created_at_ms')
      local c2 = required(a[6], 'expires_at_ms')
      local g0, m0 = '', int(r.expires_at_ms) .. word(r.idempotency_key) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.outcome_json ~= c0 then k = k + 2 s[k - 1], s[k] = 'K9m', c0 end
      if r.created_at_ms ~= c1 then k = k + 2 s[k - 1], s[k] = 'yVc', c1 end
      if r.expires_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = 'tP9', c2 end
      note_change(T.ff_suspend_dedup, pk, r, constant_0, { outcome_json = r.outcome_json, created_at_ms = r.created_at_ms, expires_at_ms = r.expires_at_ms })
      r.outcome_json = c0
      r.created_at_ms = c1
      r.expires_at_ms = c2
      local h0, o0 = '', int(r.expires_at_ms) .. word(r.idempotency_key) .. pk
      change(T.ff_suspend_dedup, pk, s, u)
      move(I.suspend_dedup_expiry, g0, m0, h0, o0)
      n = r
    end
    return { 1 }
  end,
}
