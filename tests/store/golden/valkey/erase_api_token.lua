-- erase_api_token(token_id, namespace)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_api_token, pk)
      if not (r and same(r.namespace, a[3])) then refuse(0) end
      b, n = r, r
      put(T.ff_api_token, pk, false)
    end
    return row_answer(0, {  })
  end,
}
