-- forget_cancel_backlog(partition_key, flow_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3])
    local r = fetch(T.ff_cancel_backlog, pk)
    if not (r and r.status == 'pending' and not (function() local found = {} if a[2] ~= nil and a[3] ~= nil then each_of_table(T.ff_cancel_backlog_member, int(a[2]) .. uuid(a[3]), function(pk, r) if same(r.partition_key, a[2]) and same(r.flow_id, a[3]) then found[#found + 1] = pk return true end end) end return #found > 0 end)()) then refuse(0) end
    b, n = r, r
    erase(T.ff_cancel_backlog, pk)
    return { 1 }
  end,
}
