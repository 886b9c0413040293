-- give_back_all_usage(budget_id, dimension, by)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_budget_usage, pk)
      if not (r and less(r.current_value, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('0', 'current_value')
      local c1 = required(now(), 'updated_at_ms')
      w.current_value = c0
      w.updated_at_ms = c1
      put(T.ff_budget_usage, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
