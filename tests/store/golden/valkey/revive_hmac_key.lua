-- revive_hmac_key(kid, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2])
      local r = fetch(T.ff_waitpoint_hmac, pk)
      if not (r and same(r.active, '0')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('1', 'active')
      local c1 = nil
      local c2 = required(a[3], 'rotated_at_ms')
      w.active = c0
      w.expires_at_ms = c1
      w.rotated_at_ms = c2
      put(T.ff_waitpoint_hmac, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
