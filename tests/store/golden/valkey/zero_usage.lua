-- zero_usage(budget_id, dimension, now)
local constant_0 = { 'current_value', 'last_reset_at_ms', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_budget_usage, pk)
      if not (r) then refuse(0) end
      local c1 = a[4]
      local c2 = required(a[4], 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.current_value ~= '0' then j = j + 1 u[j] = 'Yw5' end
      if r.last_reset_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'Mgd' else k = k + 2 s[k - 1], s[k] = 'Mgd', c1 end end
      if r.updated_at_ms ~= c2 then if c2 == '0' then j = j + 1 u[j] = '23j' else k = k + 2 s[k - 1], s[k] = '23j', c2 end end
      note_change(T.ff_budget_usage, pk, r, constant_0, { current_value = r.current_value, last_reset_at_ms = r.last_reset_at_ms, updated_at_ms = r.updated_at_ms })
      r.current_value = '0'
      r.last_reset_at_ms = c1
      r.updated_at_ms = c2
      change(T.ff_budget_usage, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
