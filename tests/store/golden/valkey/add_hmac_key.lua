-- add_hmac_key(kid, secret, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        kid = required(a[2], 'kid'),
        rotated_at_ms = required(a[4], 'rotated_at_ms'),
        active = required('1', 'active'),
        secret = required(a[3], 'secret'),
      }
      local pk = word(row.kid)
      n = insert(T.ff_waitpoint_hmac, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
