-- note_hard_breaches(budget_id, count, dimension)
local constant_0 = { 'breach_count', 'last_breach_at_ms', 'last_breach_dim', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r) then refuse(0) end
      local c0 = required(plus(r.breach_count, a[3]), 'breach_count')
      local c1 = time
      local c2 = a[4]
      local c3 = required(time, 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.breach_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'sl7' else k = k + 2 s[k - 1], s[k] = 'sl7', c0 end end
      if r.last_breach_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'gNd' else k = k + 2 s[k - 1], s[k] = 'gNd', c1 end end
      if r.last_breach_dim ~= c2 then if c2 == nil then j = j + 1 u[j] = 'jiU' else k = k + 2 s[k - 1], s[k] = 'jiU', c2 end end
      if r.updated_at_ms ~= c3 then k = k + 2 s[k - 1], s[k] = '23j', c3 end
      note_change(T.ff_budget_policy, pk, r, constant_0, { breach_count = r.breach_count, last_breach_at_ms = r.last_breach_at_ms, last_breach_dim = r.last_breach_dim, updated_at_ms = r.updated_at_ms })
      r.breach_count = c0
      r.last_breach_at_ms = c1
      r.last_breach_dim = c2
      r.updated_at_ms = c3
      change(T.ff_budget_policy, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
