-- drop_hmac_key(kid)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2])
      local r = fetch(T.ff_waitpoint_hmac, pk)
      if not (r and same(r.active, '0')) then refuse(0) end
      b, n = r, r
      put(T.ff_waitpoint_hmac, pk, false)
    end
    return row_answer(0, {  })
  end,
}
