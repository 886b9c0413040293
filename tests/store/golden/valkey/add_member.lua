-- add_member(partition_key, flow_id, version, raw_fields, execution_id, member_version, now)
local constant_0 = { 'version', 'graph_revision', 'raw_fields', 'settled_at_ms' }
local constant_1 = { 'flow_id', 'version', 'last_mutation_at' }
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
      local pk = int(a[2]) .. uuid(a[6])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[7])) then refuse(1) end
      local c0 = a[3]
      local c1 = required(plus(r.version, '1'), 'version')
      local c2 = required(a[8], 'last_mutation_at')
      local g0, m0
      if r.flow_id ~= nil then g0, m0 = int(r.partition_key) .. uuid(r.flow_id), uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.flow_id ~= c0 then if c0 == nil then j = j + 1 u[j] = 'vkT' else k = k + 2 s[k - 1], s[k] = 'vkT', c0 end end
      if r.version ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c1 end end
      if r.last_mutation_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c2 end end
      note_change(T.ff_exec_core, pk, r, constant_1, { flow_id = r.flow_id, version = r.version, last_mutation_at = r.last_mutation_at })
      r.flow_id = c0
      r.version = c1
      r.last_mutation_at = c2
      local h0, o0
      if r.flow_id ~= nil then h0, o0 = int(r.partition_key) .. uuid(r.flow_id), uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.members, g0, m0, h0, o0)
    end
    return { 1 }
  end,
}
