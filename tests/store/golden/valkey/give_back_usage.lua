-- give_back_usage(budget_id, dimension, by, less)
local constant_0 = { 'current_value', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_budget_usage, pk)
      if not (r and up_to(a[4], r.current_value)) then refuse(0) end
      local c0 = required(plus(r.current_value, a[5]), 'current_value')
      local c1 = required(time, 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.current_value ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'Yw5' else k = k + 2 s[k - 1], s[k] = 'Yw5', c0 end end
      if r.updated_at_ms ~= c1 then if c1 == '0' then j = j + 1 u[j] = '23j' else k = k + 2 s[k - 1], s[k] = '23j', c1 end end
      note_change(T.ff_budget_usage, pk, r, constant_0, { current_value = r.current_value, updated_at_ms = r.updated_at_ms })
      r.current_value = c0
      r.updated_at_ms = c1
      change(T.ff_budget_usage, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
