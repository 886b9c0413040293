-- set_first_edge_policy(partition_key, flow_id, version, downstream_eid, policy, k_target)
local constant_0 = { 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      note_change(T.ff_flow_core, pk, r, constant_0, { version = r.version })
      r.version = c0
      change(T.ff_flow_core, pk, s, u)
      n = r
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_downstream_eid = required(a[5], 'downstream_eid')
      local v_policy = required(a[6], 'policy')
      local v_k_target = required(a[7], 'k_target')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_downstream_eid)
      if exists(T.ff_edge_group, pk) then refuse(1) end
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'zje', v_downstream_eid }, 6
      if v_policy ~= '{}' then k = k + 2 s[k - 1], s[k] = 'Yji', v_policy end
      if v_k_target ~= '0' then k = k + 2 s[k - 1], s[k] = 'Z2r', v_k_target end
      make(T.ff_edge_group, pk, s)
    end
    return { 1 }
  end,
}
