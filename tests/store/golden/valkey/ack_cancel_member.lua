-- ack_cancel_member(partition_key, flow_id, execution_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3]) .. word(a[4])
    local r = fetch(T.ff_cancel_backlog_member, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_cancel_backlog_member, pk)
    return { 1 }
  end,
}
