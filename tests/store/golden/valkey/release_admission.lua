-- release_admission(quota_policy_id, execution_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2]) .. word(a[3])
      local r = fetch(T.ff_quota_admitted, pk)
      if not (r) then refuse(0) end
      b, n = r, r
      put(T.ff_quota_admitted, pk, false)
    end
    wake('quotas', '', nil, '')
    return row_answer(0, {  })
  end,
}
