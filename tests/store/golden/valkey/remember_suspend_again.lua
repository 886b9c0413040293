-- remember_suspend_again(partition_key, idempotency_key, outcome_json, now, expires_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. word(a[3])
      local r = fetch(T.ff_suspend_dedup, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[4], 'outcome_json')
      local c1 = required(a[5], 'created_at_ms')
      local c2 = required(a[6], 'expires_at_ms')
      w.outcome_json = c0
      w.created_at_ms = c1
      w.expires_at_ms = c2
      put(T.ff_suspend_dedup, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
