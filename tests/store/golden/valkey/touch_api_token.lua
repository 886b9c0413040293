-- touch_api_token(token_id, before)
local constant_0 = { 'last_used_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_api_token, pk)
      if not (r and (r.last_used_at_ms == nil or up_to(r.last_used_at_ms, a[3]))) then refuse(0) end
      local c0 = time
      local s, k, u, j = {}, 0, {}, 0
      if r.last_used_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'Cfv' else k = k + 2 s[k - 1], s[k] = 'Cfv', c0 end end
      note_change(T.ff_api_token, pk, r, constant_0, { last_used_at_ms = r.last_used_at_ms })
      r.last_used_at_ms = c0
      change(T.ff_api_token, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
