-- remember_usage_again(budget_id, key, now, outcome, expires_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_budget_usage_dedup, pk)
      if not (r and up_to(r.expires_at_ms, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[5], 'outcome_json')
      local c1 = required(a[4], 'applied_at_ms')
      local c2 = required(a[6], 'expires_at_ms')
      w.outcome_json = c0
      w.applied_at_ms = c1
      w.expires_at_ms = c2
      put(T.ff_budget_usage_dedup, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
