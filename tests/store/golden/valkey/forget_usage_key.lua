-- forget_usage_key(budget_id, key, now)
return {
  run = function(a)
    local time, b, n = now()
    local pk = uuid(a[2]) .. word(a[3])
    local r = fetch(T.ff_budget_usage_dedup, pk)
    if not (r and up_to(r.expires_at_ms, a[4])) then refuse(0) end
    b, n = r, r
    erase(T.ff_budget_usage_dedup, pk)
    return { 1 }
  end,
}
