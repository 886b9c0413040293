-- charge_execution(partition_key, execution_id, dimension, budget_id, by)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3]) .. word(a[4]) .. uuid(a[5])
      local r = fetch(T.ff_budget_usage_by_exec, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.delta_total, a[6]), 'delta_total')
      local c1 = required(now(), 'updated_at_ms')
      w.delta_total = c0
      w.updated_at_ms = c1
      put(T.ff_budget_usage_by_exec, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
