-- note_soft_breaches(budget_id, count)
local constant_0 = { 'soft_breach_count', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r) then refuse(0) end
      local c0 = required(plus(r.soft_breach_count, a[3]), 'soft_breach_count')
      local c1 = required(time, 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.soft_breach_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'Xxr' else k = k + 2 s[k - 1], s[k] = 'Xxr', c0 end end
      if r.updated_at_ms ~= c1 then k = k + 2 s[k - 1], s[k] = '23j', c1 end
      note_change(T.ff_budget_policy, pk, r, constant_0, { soft_breach_count = r.soft_breach_count, updated_at_ms = r.updated_at_ms })
      r.soft_breach_count = c0
      r.updated_at_ms = c1
      change(T.ff_budget_policy, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
