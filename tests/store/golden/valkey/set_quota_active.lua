-- set_quota_active(quota_policy_id, was, active)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r and same(r.active_concurrency, a[3])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[4], 'active_concurrency')
      w.active_concurrency = c0
      put(T.ff_quota_policy, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
