-- revive_hmac_key(kid, now)
local constant_0 = { 'active', 'expires_at_ms', 'rotated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2])
      local r = fetch(T.ff_waitpoint_hmac, pk)
      if not (r and r.active == '0') then refuse(0) end
      local c2 = required(a[3], 'rotated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.active ~= '1' then k = k + 2 s[k - 1], s[k] = 'Sgb', '1' end
      if r.expires_at_ms ~= nil then j = j + 1 u[j] = 'tP9' end
      if r.rotated_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = 'iKA', c2 end
      note_change(T.ff_waitpoint_hmac, pk, r, constant_0, { active = r.active, expires_at_ms = r.expires_at_ms, rotated_at_ms = r.rotated_at_ms })
      r.active = '1'
      r.expires_at_ms = nil
      r.rotated_at_ms = c2
      change(T.ff_waitpoint_hmac, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
