-- create_flow(partition_key, flow_id, graph_revision, now, raw_fields)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_graph_revision = required(a[4], 'graph_revision')
      local v_created_at_ms = required(a[5], 'created_at_ms')
      local v_raw_fields = required(a[6], 'raw_fields')
      local pk = int(v_partition_key) .. uuid(v_flow_id)
      if exists(T.ff_flow_core, pk) then refuse(0) end
      local h0, o0 = '', int(v_created_at_ms) .. uuid(v_flow_id) .. pk
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'yVc', v_created_at_ms }, 6
      if v_graph_revision ~= '0' then k = k + 2 s[k - 1], s[k] = 'Ndf', v_graph_revision end
      if v_raw_fields ~= '{}' then k = k + 2 s[k - 1], s[k] = 'Wpu', v_raw_fields end
      make(T.ff_flow_core, pk, s)
      add(I.unsettled_flows, h0, o0)
    end
    return { 1 }
  end,
}
