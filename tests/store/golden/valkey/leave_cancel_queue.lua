-- leave_cancel_queue(partition_key, flow_id, downstream_eid)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
    local r = fetch(T.ff_pending_cancel_groups, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_pending_cancel_groups, pk)
    return { 1 }
  end,
}
