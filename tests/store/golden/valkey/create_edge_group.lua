-- create_edge_group(partition_key, flow_id, downstream_eid, policy, k_target, running_count)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_downstream_eid = required(a[4], 'downstream_eid')
      local v_policy = required(a[5], 'policy')
      local v_k_target = required(a[6], 'k_target')
      local v_running_count = required(a[7], 'running_count')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_downstream_eid)
      if exists(T.ff_edge_group, pk) then refuse(0) end
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'zje', v_downstream_eid }, 6
      if v_policy ~= '{}' then k = k + 2 s[k - 1], s[k] = 'Yji', v_policy end
      if v_k_target ~= '0' then k = k + 2 s[k - 1], s[k] = 'Z2r', v_k_target end
      if v_running_count ~= '0' then k = k + 2 s[k - 1], s[k] = 'wsV', v_running_count end
      make(T.ff_edge_group, pk, s)
    end
    return { 1 }
  end,
}
