-- note_soft_breaches(budget_id, count)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.soft_breach_count, a[3]), 'soft_breach_count')
      local c1 = required(now(), 'updated_at_ms')
      w.soft_breach_count = c0
      w.updated_at_ms = c1
      put(T.ff_budget_policy, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
