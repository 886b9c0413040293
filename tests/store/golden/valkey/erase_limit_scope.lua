-- erase_limit_scope(scope_type, scope_id, kind, limit_id, namespace)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3]) .. word(a[4]) .. uuid(a[5])
      local r = fetch(T.ff_limit_scope, pk)
      if not (r and same(r.namespace, a[6])) then refuse(0) end
      b, n = r, r
      put(T.ff_limit_scope, pk, false)
    end
    wake('limits', '', nil, '')
    return row_answer(0, {  })
  end,
}
