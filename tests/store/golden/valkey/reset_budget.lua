-- reset_budget(budget_id, version, next_reset_at_ms, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r and same(r.version, a[3])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = nil
      local c2 = nil
      local c3 = a[4]
      local c4 = required(a[5], 'updated_at_ms')
      w.version = c0
      w.last_breach_at_ms = c1
      w.last_breach_dim = c2
      w.next_reset_at_ms = c3
      w.updated_at_ms = c4
      put(T.ff_budget_policy, pk, w)
      n = w
    end
    do
      local found = {}
      if a[2] ~= nil then
        each_row(I.ledger_of_budget, uuid(a[2]), nil, nil, false, function(pk, r) if same(r.budget_id, a[2]) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do put(T.ff_budget_usage_by_exec, pk, false) end
    end
    do local at = a[4] if at then wake('budget_resets', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
