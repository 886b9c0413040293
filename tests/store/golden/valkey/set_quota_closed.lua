-- set_quota_closed(quota_policy_id, until_ms)
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
      local c1 = required(now(), 'updated_at_ms')
      local c2 = a[3]
      w.version = c0
      w.updated_at_ms = c1
      w.closed_until_ms = c2
      put(T.ff_quota_policy, pk, w)
      n = w
    end
    wake('quotas', '', nil, '')
    return row_answer(0, {  })
  end,
}
