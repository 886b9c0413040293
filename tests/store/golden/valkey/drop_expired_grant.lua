-- drop_expired_grant(partition_key, execution_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_claim_grant, pk)
      if not (r and less(r.expires_at_ms, now())) then refuse(0) end
      b, n = r, r
      put(T.ff_claim_grant, pk, false)
    end
    wake('ready', 's', n.lane_id, '')
    return row_answer(0, {  })
  end,
}
