-- stage_edge(partition_key, flow_id, version, raw_fields, edge_id, upstream_eid, downstream_eid, edge_policy)
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
      local c1 = required(plus(r.graph_revision, '1'), 'graph_revision')
      local c2 = required(a[5], 'raw_fields')
      local c3 = nil
      w.version = c0
      w.graph_revision = c1
      w.raw_fields = c2
      w.settled_at_ms = c3
      put(T.ff_flow_core, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        edge_id = required(a[6], 'edge_id'),
        upstream_eid = required(a[7], 'upstream_eid'),
        downstream_eid = required(a[8], 'downstream_eid'),
        policy = required(a[9], 'policy'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. uuid(row.edge_id)
      insert(T.ff_edge, pk, row, 1)
    end
    return row_answer(0, {  })
  end,
}
