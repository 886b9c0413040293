-- forget_task(namespace, name, version, old_quota_policy_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3])
    local r = fetch(T.ff_task, pk)
    if not (r and same(r.version, a[4])) then refuse(0) end
    b, n = r, r
    erase(T.ff_task, pk)
    do
      local pk = word('task') .. word(a[3]) .. word('quota') .. uuid(a[5])
      local r = a[3] ~= nil and a[5] ~= nil and fetch(T.ff_limit_scope, pk)
      if r then
        erase(T.ff_limit_scope, pk)
      end
    end
    wake('limits', '', '', '')
    return { 1 }
  end,
}
