-- create_edge(partition_key, flow_id, edge_id, upstream_eid, downstream_eid, edge_policy, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        edge_id = required(a[4], 'edge_id'),
        upstream_eid = required(a[5], 'upstream_eid'),
        downstream_eid = required(a[6], 'downstream_eid'),
        edge_state = required('applied', 'edge_state'),
        dep_state = 'unsatisfied',
        applied_at_ms = a[8],
        policy = required(a[7], 'policy'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. uuid(row.edge_id)
      n = insert(T.ff_edge, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
