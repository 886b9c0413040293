-- forget_suspend_key(partition_key, idempotency_key, now)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. word(a[3])
    local r = fetch(T.ff_suspend_dedup, pk)
    if not (r and up_to(r.expires_at_ms, a[4])) then refuse(0) end
    b, n = r, r
    erase(T.ff_suspend_dedup, pk)
    return { 1 }
  end,
}
