-- drain_sibling_cancels(partition_key, flow_id, downstream_eid, version)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('0', 'cancel_siblings_pending_flag')
      local c1 = required('[]', 'cancel_siblings_pending_members')
      local c2 = required(plus(r.version, '1'), 'version')
      w.cancel_siblings_pending_flag = c0
      w.cancel_siblings_pending_members = c1
      w.version = c2
      put(T.ff_edge_group, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.flow_id ~= nil and n.downstream_eid ~= nil then
        local pk = int(n.partition_key) .. uuid(n.flow_id) .. uuid(n.downstream_eid)
        local r = fetch(T.ff_pending_cancel_groups, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.flow_id, n.flow_id) and same(r.downstream_eid, n.downstream_eid) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_pending_cancel_groups, pk, false) end
    end
    return row_answer(0, {  })
  end,
}
