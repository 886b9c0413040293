-- create_edge(partition_key, flow_id, edge_id, upstream_eid, downstream_eid, edge_policy, now)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_edge_id = required(a[4], 'edge_id')
      local v_upstream_eid = required(a[5], 'upstream_eid')
      local v_downstream_eid = required(a[6], 'downstream_eid')
      local v_applied_at_ms = a[8]
      local v_policy = required(a[7], 'policy')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_edge_id)
      if exists(T.ff_edge, pk) then refuse(0) end
      local h0, o0 = int(v_partition_key) .. uuid(v_upstream_eid), uuid(v_edge_id) .. pk
      local h1, o1 = int(v_partition_key) .. uuid(v_downstream_eid), uuid(v_edge_id) .. pk
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, '0jz', v_edge_id, 'U9S', v_upstream_eid, 'zje', v_downstream_eid, 'UZq', 'applied', '03T', 'unsatisfied' }, 14
      if v_applied_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = '7Y5', v_applied_at_ms end
      if v_policy ~= '{}' then k = k + 2 s[k - 1], s[k] = 'Yji', v_policy end
      make(T.ff_edge, pk, s)
      add(I.edges_out, h0, o0)
      add(I.edges_in, h1, o1)
    end
    return { 1 }
  end,
}
