-- stage_edge(partition_key, flow_id, version, raw_fields, edge_id, upstream_eid, downstream_eid, edge_policy)
local constant_0 = { 'version', 'graph_revision', 'raw_fields', 'settled_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(plus(r.graph_revision, '1'), 'graph_revision')
      local c2 = required(a[5], 'raw_fields')
      local g0, m0
      if r.settled_at_ms == nil then g0, m0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.graph_revision ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'Ndf' else k = k + 2 s[k - 1], s[k] = 'Ndf', c1 end end
      if r.raw_fields ~= c2 then if c2 == '{}' then j = j + 1 u[j] = 'Wpu' else k = k + 2 s[k - 1], s[k] = 'Wpu', c2 end end
      if r.settled_at_ms ~= nil then j = j + 1 u[j] = 'XsL' end
      note_change(T.ff_flow_core, pk, r, constant_0, { version = r.version, graph_revision = r.graph_revision, raw_fields = r.raw_fields, settled_at_ms = r.settled_at_ms })
      r.version = c0
      r.graph_revision = c1
      r.raw_fields = c2
      r.settled_at_ms = nil
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk
      change(T.ff_flow_core, pk, s, u)
      move(I.unsettled_flows, g0, m0, h0, o0)
      n = r
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_edge_id = required(a[6], 'edge_id')
      local v_upstream_eid = required(a[7], 'upstream_eid')
      local v_downstream_eid = required(a[8], 'downstream_eid')
      local v_policy = required(a[9], 'policy')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_edge_id)
      if exists(T.ff_edge, pk) then refuse(1) end
      local h0, o0 = int(v_partition_key) .. uuid(v_upstream_eid), uuid(v_edge_id) .. pk
      local h1, o1 = int(v_partition_key) .. uuid(v_downstream_eid), uuid(v_edge_id) .. pk
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, '0jz', v_edge_id, 'U9S', v_upstream_eid, 'zje', v_downstream_eid }, 10
      if v_policy ~= '{}' then k = k + 2 s[k - 1], s[k] = 'Yji', v_policy end
      make(T.ff_edge, pk, s)
      add(I.edges_out, h0, o0)
      add(I.edges_in, h1, o1)
    end
    return { 1 }
  end,
}
