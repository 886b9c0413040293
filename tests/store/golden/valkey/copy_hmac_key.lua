-- copy_hmac_key(kid, secret, rotated_at_ms, active, expires_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        kid = required(a[2], 'kid'),
        rotated_at_ms = required(a[4], 'rotated_at_ms'),
        active = required(a[5], 'active'),
        expires_at_ms = a[6],
        secret = required(a[3], 'secret'),
      }
      local pk = word(row.kid)
      n = insert(T.ff_waitpoint_hmac, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
