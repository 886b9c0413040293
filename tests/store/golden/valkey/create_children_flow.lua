-- create_children_flow(parent_partition, parent_execution_id, namespace, partition_key, flow_id, graph_revision, now, raw_fields)
return {
  run = function(a)
    local b, n = {}, {}
    do
      if not ((function() local found = {} if a[2] ~= nil and a[3] ~= nil then local pk = int(a[2]) .. uuid(a[3]) local r = fetch(T.ff_exec_core, pk) if r and same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.namespace, a[4]) and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'pending' or r.lifecycle_phase == 'blocked' or r.lifecycle_phase == 'eligible' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      local row = {
        partition_key = required(a[5], 'partition_key'),
        flow_id = required(a[6], 'flow_id'),
        graph_revision = required(a[7], 'graph_revision'),
        created_at_ms = required(a[8], 'created_at_ms'),
        parent_partition = a[2],
        parent_execution_id = a[3],
        raw_fields = required(a[9], 'raw_fields'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id)
      n = insert(T.ff_flow_core, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
