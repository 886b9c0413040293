-- forget_signal_key(partition_key, waitpoint_id, idempotency_key, now)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3]) .. word(a[4])
    local r = fetch(T.ff_signal_dedup, pk)
    if not (r and up_to(r.expires_at_ms, a[5])) then refuse(0) end
    b, n = r, r
    erase(T.ff_signal_dedup, pk)
    return { 1 }
  end,
}
