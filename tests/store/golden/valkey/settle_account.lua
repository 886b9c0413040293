-- settle_account(partition_key, execution_id, dimension, budget_id, by)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3]) .. word(a[4]) .. uuid(a[5])
    local r = fetch(T.ff_budget_usage_by_exec, pk)
    if not (r and same(r.delta_total, a[6])) then refuse(0) end
    b, n = r, r
    erase(T.ff_budget_usage_by_exec, pk)
    return { 1 }
  end,
}
