-- remember_usage_again(budget_id, key, now, outcome, expires_at_ms)
local constant_0 = { 'outcome_json', 'applied_at_ms', 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_budget_usage_dedup, pk)
      if not (r and up_to(r.expires_at_ms, a[4])) then refuse(0) end
      local c0 = required(a[5], 'outcome_json')
      local c1 = required(a[4], 'applied_at_ms')
      local c2 = required(a[6], 'expires_at_ms')
      local g0, m0 = '', int(r.expires_at_ms) .. uuid(r.budget_id) .. word(r.dedup_key) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.outcome_json ~= c0 then if c0 == '{}' then j = j + 1 u[j] = 'K9m' else k = k + 2 s[k - 1], s[k] = 'K9m', c0 end end
      if r.applied_at_ms ~= c1 then k = k + 2 s[k - 1], s[k] = '7Y5', c1 end
      if r.expires_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = 'tP9', c2 end
      note_change(T.ff_budget_usage_dedup, pk, r, constant_0, { outcome_json = r.outcome_json, applied_at_ms = r.applied_at_ms, expires_at_ms = r.expires_at_ms })
      r.outcome_json = c0
      r.applied_at_ms = c1
      r.expires_at_ms = c2
      local h0, o0 = '', int(r.expires_at_ms) .. uuid(r.budget_id) .. word(r.dedup_key) .. pk
      change(T.ff_budget_usage_dedup, pk, s, u)
      move(I.usage_dedup_expiry, g0, m0, h0, o0)
      n = r
    end
    return { 1 }
  end,
}
