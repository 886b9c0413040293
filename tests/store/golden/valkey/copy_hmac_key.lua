-- copy_hmac_key(kid, secret, rotated_at_ms, active, expires_at_ms)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_kid = required(a[2], 'kid')
      local v_rotated_at_ms = required(a[4], 'rotated_at_ms')
      local v_active = required(a[5], 'active')
      local v_expires_at_ms = a[6]
      local v_secret = required(a[3], 'secret')
      local pk = word(v_kid)
      if exists(T.ff_waitpoint_hmac, pk) then refuse(0) end
      local s, k = { 'uH3', v_kid, 'iKA', v_rotated_at_ms, 'Bib', v_secret }, 6
      if v_active ~= '0' then k = k + 2 s[k - 1], s[k] = 'Sgb', v_active end
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      make(T.ff_waitpoint_hmac, pk, s)
    end
    return { 1 }
  end,
}
