-- create_edge_group(partition_key, flow_id, downstream_eid, policy, k_target, running_count)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        downstream_eid = required(a[4], 'downstream_eid'),
        policy = required(a[5], 'policy'),
        k_target = required(a[6], 'k_target'),
        running_count = required(a[7], 'running_count'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. uuid(row.downstream_eid)
      n = insert(T.ff_edge_group, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
