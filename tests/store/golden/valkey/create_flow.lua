-- create_flow(partition_key, flow_id, graph_revision, now, raw_fields)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        graph_revision = required(a[4], 'graph_revision'),
        created_at_ms = required(a[5], 'created_at_ms'),
        raw_fields = required(a[6], 'raw_fields'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id)
      n = insert(T.ff_flow_core, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
