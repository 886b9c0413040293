-- drop_expired_grant(partition_key, execution_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3])
    local r = fetch(T.ff_claim_grant, pk)
    if not (r and less(r.expires_at_ms, time)) then refuse(0) end
    b, n = r, r
    erase(T.ff_claim_grant, pk)
    wake('ready', 's', n.lane_id, '')
    return { 1 }
  end,
}
