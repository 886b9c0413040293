-- erase_api_token(token_id, namespace)
return {
  run = function(a)
    local time, b, n = now()
    local pk = uuid(a[2])
    local r = fetch(T.ff_api_token, pk)
    if not (r and same(r.namespace, a[3])) then refuse(0) end
    b, n = r, r
    erase(T.ff_api_token, pk)
    return { 1 }
  end,
}
