-- add_hmac_key(kid, secret, now)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_kid = required(a[2], 'kid')
      local v_rotated_at_ms = required(a[4], 'rotated_at_ms')
      local v_secret = required(a[3], 'secret')
      local pk = word(v_kid)
      if exists(T.ff_waitpoint_hmac, pk) then refuse(0) end
      local s, k = { 'uH3', v_kid, 'iKA', v_rotated_at_ms, 'Sgb', '1', 'Bib', v_secret }, 8
      make(T.ff_waitpoint_hmac, pk, s)
    end
    return { 1 }
  end,
}
