-- charge_execution(partition_key, execution_id, dimension, budget_id, by)
local constant_0 = { 'delta_total', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. word(a[4]) .. uuid(a[5])
      local r = fetch(T.ff_budget_usage_by_exec, pk)
      if not (r) then refuse(0) end
      local c0 = required(plus(r.delta_total, a[6]), 'delta_total')
      local c1 = required(time, 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.delta_total ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'UY0' else k = k + 2 s[k - 1], s[k] = 'UY0', c0 end end
      if r.updated_at_ms ~= c1 then if c1 == '0' then j = j + 1 u[j] = '23j' else k = k + 2 s[k - 1], s[k] = '23j', c1 end end
      note_change(T.ff_budget_usage_by_exec, pk, r, constant_0, { delta_total = r.delta_total, updated_at_ms = r.updated_at_ms })
      r.delta_total = c0
      r.updated_at_ms = c1
      change(T.ff_budget_usage_by_exec, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
