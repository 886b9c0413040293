-- retire_hmac_key(kid, expires_at_ms)
local constant_0 = { 'active', 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2])
      local r = fetch(T.ff_waitpoint_hmac, pk)
      if not (r and r.active == '1') then refuse(0) end
      local c1 = a[3]
      local s, k, u, j = {}, 0, {}, 0
      if r.active ~= '0' then j = j + 1 u[j] = 'Sgb' end
      if r.expires_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'tP9' else k = k + 2 s[k - 1], s[k] = 'tP9', c1 end end
      note_change(T.ff_waitpoint_hmac, pk, r, constant_0, { active = r.active, expires_at_ms = r.expires_at_ms })
      r.active = '0'
      r.expires_at_ms = c1
      change(T.ff_waitpoint_hmac, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
