-- erase_limit_scope(scope_type, scope_id, kind, limit_id, namespace)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3]) .. word(a[4]) .. uuid(a[5])
    local r = fetch(T.ff_limit_scope, pk)
    if not (r and same(r.namespace, a[6])) then refuse(0) end
    b, n = r, r
    erase(T.ff_limit_scope, pk)
    wake('limits', '', '', '')
    return { 1 }
  end,
}
