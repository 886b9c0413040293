-- note_refund(quota_policy_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      w.version = c0
      put(T.ff_quota_policy, pk, w)
      n = w
    end
    wake('quotas', '', nil, '')
    return row_answer(0, {  })
  end,
}
