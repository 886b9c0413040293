-- create_children_flow(parent_partition, parent_execution_id, namespace, partition_key, flow_id, graph_revision, now, raw_fields)
local function is_met_0(r, a, b, n, time) return r and same(r.namespace, a[4]) and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'pending' or r.lifecycle_phase == 'blocked' or r.lifecycle_phase == 'eligible' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') end
return {
  run = function(a)
    local time, b, n = now()
    do
      if not ((a[2] ~= nil and a[3] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[2]) .. uuid(a[3])), a, b, n, time))) then refuse(0) end
      local v_partition_key = required(a[5], 'partition_key')
      local v_flow_id = required(a[6], 'flow_id')
      local v_graph_revision = required(a[7], 'graph_revision')
      local v_created_at_ms = required(a[8], 'created_at_ms')
      local v_parent_partition = a[2]
      local v_parent_execution_id = a[3]
      local v_raw_fields = required(a[9], 'raw_fields')
      local pk = int(v_partition_key) .. uuid(v_flow_id)
      if exists(T.ff_flow_core, pk) then refuse(0) end
      local h0, o0 = '', int(v_created_at_ms) .. uuid(v_flow_id) .. pk
      local h1, o1
      if v_parent_execution_id ~= nil then h1, o1 = int(v_parent_partition) .. uuid(v_parent_execution_id), uuid(v_flow_id) .. pk end
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'yVc', v_created_at_ms }, 6
      if v_graph_revision ~= '0' then k = k + 2 s[k - 1], s[k] = 'Ndf', v_graph_revision end
      if v_parent_partition ~= nil then k = k + 2 s[k - 1], s[k] = 'KMv', v_parent_partition end
      if v_parent_execution_id ~= nil then k = k + 2 s[k - 1], s[k] = 'ygS', v_parent_execution_id end
      if v_raw_fields ~= '{}' then k = k + 2 s[k - 1], s[k] = 'Wpu', v_raw_fields end
      make(T.ff_flow_core, pk, s)
      add(I.unsettled_flows, h0, o0)
      if o1 then add(I.children_of, h1, o1) end
    end
    return { 1 }
  end,
}
