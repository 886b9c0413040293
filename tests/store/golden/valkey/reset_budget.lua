-- reset_budget(budget_id, version, next_reset_at_ms, now)
local constant_0 = { 'version', 'last_breach_at_ms', 'last_breach_dim', 'next_reset_at_ms', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r and same(r.version, a[3])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c3 = a[4]
      local c4 = required(a[5], 'updated_at_ms')
      local g0, m0
      if r.next_reset_at_ms ~= nil then g0, m0 = '', int(r.next_reset_at_ms) .. uuid(r.budget_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_breach_at_ms ~= nil then j = j + 1 u[j] = 'gNd' end
      if r.last_breach_dim ~= nil then j = j + 1 u[j] = 'jiU' end
      if r.next_reset_at_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = 'R6O' else k = k + 2 s[k - 1], s[k] = 'R6O', c3 end end
      if r.updated_at_ms ~= c4 then k = k + 2 s[k - 1], s[k] = '23j', c4 end
      note_change(T.ff_budget_policy, pk, r, constant_0, { version = r.version, last_breach_at_ms = r.last_breach_at_ms, last_breach_dim = r.last_breach_dim, next_reset_at_ms = r.next_reset_at_ms, updated_at_ms = r.updated_at_ms })
      r.version = c0
      r.last_breach_at_ms = nil
      r.last_breach_dim = nil
      r.next_reset_at_ms = c3
      r.updated_at_ms = c4
      local h0, o0
      if r.next_reset_at_ms ~= nil then h0, o0 = '', int(r.next_reset_at_ms) .. uuid(r.budget_id) .. pk end
      change(T.ff_budget_policy, pk, s, u)
      move(I.budget_resets, g0, m0, h0, o0)
      n = r
    end
    do
      local found = {}
      if a[2] ~= nil then
        each_row(I.ledger_of_budget, uuid(a[2]), nil, nil, false, function(pk, r) if same(r.budget_id, a[2]) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_budget_usage_by_exec, pk)
        erase(T.ff_budget_usage_by_exec, pk)
      end
    end
    wake('budget_resets', '', '', a[4])
    return { 1 }
  end,
}
