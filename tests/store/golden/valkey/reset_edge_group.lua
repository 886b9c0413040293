-- reset_edge_group(partition_key, flow_id, downstream_eid, version, running_count, now)
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
      local c0 = required('0', 'fail_count')
      local c1 = required('0', 'skip_count')
      local c2 = required(a[6], 'running_count')
      local c3 = required('pending', 'group_state')
      local c4 = nil
      local c5 = required('0', 'cancel_siblings_pending_flag')
      local c6 = required('[]', 'cancel_siblings_pending_members')
      local c7 = required(plus(r.version, '1'), 'version')
      w.fail_count = c0
      w.skip_count = c1
      w.running_count = c2
      w.group_state = c3
      w.satisfied_at_ms = c4
      w.cancel_siblings_pending_flag = c5
      w.cancel_siblings_pending_members = c6
      w.version = c7
      put(T.ff_edge_group, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.downstream_eid ~= nil then
        each_row(I.edges_in, int(n.partition_key) .. uuid(n.downstream_eid), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.downstream_eid, n.downstream_eid) and same(r.flow_id, n.flow_id) and same(r.dep_state, 'impossible') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        local w
        w = copy(r)
        local c0 = 'unsatisfied'
        local c1 = nil
        local c2 = a[7]
        w.dep_state = c0
        w.last_resolved_at_ms = c1
        w.reset_at_ms = c2
        put(T.ff_edge, pk, w)
      end
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
