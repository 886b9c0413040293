-- release_admission(quota_policy_id, execution_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = uuid(a[2]) .. word(a[3])
    local r = fetch(T.ff_quota_admitted, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_quota_admitted, pk)
    wake('quotas', '', '', '')
    return { 1 }
  end,
}
