-- set_first_edge_policy(partition_key, flow_id, version, downstream_eid, policy, k_target)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      w.version = c0
      put(T.ff_flow_core, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        downstream_eid = required(a[5], 'downstream_eid'),
        policy = required(a[6], 'policy'),
        k_target = required(a[7], 'k_target'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. uuid(row.downstream_eid)
      insert(T.ff_edge_group, pk, row, 1)
    end
    return row_answer(0, {  })
  end,
}
