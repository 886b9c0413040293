-- note_hard_breach_as_read(budget_id, version, count, dimension)
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
      local c0 = required(plus(r.breach_count, a[4]), 'breach_count')
      local c1 = now()
      local c2 = a[5]
      local c3 = required(now(), 'updated_at_ms')
      w.breach_count = c0
      w.last_breach_at_ms = c1
      w.last_breach_dim = c2
      w.updated_at_ms = c3
      put(T.ff_budget_policy, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
