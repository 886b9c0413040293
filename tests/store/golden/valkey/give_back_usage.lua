-- give_back_usage(budget_id, dimension, by, less)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_budget_usage, pk)
      if not (r and up_to(a[4], r.current_value)) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.current_value, a[5]), 'current_value')
      local c1 = required(now(), 'updated_at_ms')
      w.current_value = c0
      w.updated_at_ms = c1
      put(T.ff_budget_usage, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
