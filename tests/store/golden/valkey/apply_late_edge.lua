-- apply_late_edge(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now)
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
      local c0 = required(a[6], 'running_count')
      local c1 = required(a[7], 'group_state')
      local c2 = required(plus(r.version, '1'), 'version')
      w.running_count = c0
      w.group_state = c1
      w.version = c2
      put(T.ff_edge_group, pk, w)
      n = w
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[8] ~= nil then
        local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[8])
        local r = fetch(T.ff_edge, pk)
        if r and same(r.partition_key, a[2]) and same(r.flow_id, a[3]) and same(r.edge_id, a[8]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        local w
        w = copy(r)
        local c0 = required('applied', 'edge_state')
        local c1 = a[9]
        local c2 = 'unsatisfied'
        w.edge_state = c0
        w.applied_at_ms = c1
        w.dep_state = c2
        put(T.ff_edge, pk, w)
      end
    end
    return row_answer(0, {  })
  end,
}
