-- drop_hmac_key(kid)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2])
    local r = fetch(T.ff_waitpoint_hmac, pk)
    if not (r and r.active == '0') then refuse(0) end
    b, n = r, r
    erase(T.ff_waitpoint_hmac, pk)
    return { 1 }
  end,
}
