-- retire_hmac_key(kid, expires_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2])
      local r = fetch(T.ff_waitpoint_hmac, pk)
      if not (r and same(r.active, '1')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('0', 'active')
      local c1 = a[3]
      w.active = c0
      w.expires_at_ms = c1
      put(T.ff_waitpoint_hmac, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
