-- apply_late_edge(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now)
local constant_0 = { 'running_count', 'group_state', 'version' }
local constant_1 = { 'edge_state', 'applied_at_ms', 'dep_state' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      local c0 = required(a[6], 'running_count')
      local c1 = required(a[7], 'group_state')
      local c2 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.running_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'wsV' else k = k + 2 s[k - 1], s[k] = 'wsV', c0 end end
      if r.group_state ~= c1 then if c1 == 'pending' then j = j + 1 u[j] = 'woT' else k = k + 2 s[k - 1], s[k] = 'woT', c1 end end
      if r.version ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c2 end end
      note_change(T.ff_edge_group, pk, r, constant_0, { running_count = r.running_count, group_state = r.group_state, version = r.version })
      r.running_count = c0
      r.group_state = c1
      r.version = c2
      change(T.ff_edge_group, pk, s, u)
      n = r
    end
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[8])
      local r = a[2] ~= nil and a[3] ~= nil and a[8] ~= nil and fetch(T.ff_edge, pk)
      if r then
        local c1 = a[9]
        local s, k, u, j = {}, 0, {}, 0
        if r.edge_state ~= 'applied' then k = k + 2 s[k - 1], s[k] = 'UZq', 'applied' end
        if r.applied_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = '7Y5' else k = k + 2 s[k - 1], s[k] = '7Y5', c1 end end
        if r.dep_state ~= 'unsatisfied' then k = k + 2 s[k - 1], s[k] = '03T', 'unsatisfied' end
        note_change(T.ff_edge, pk, r, constant_1, { edge_state = r.edge_state, applied_at_ms = r.applied_at_ms, dep_state = r.dep_state })
        r.edge_state = 'applied'
        r.applied_at_ms = c1
        r.dep_state = 'unsatisfied'
        change(T.ff_edge, pk, s, u)
      end
    end
    return { 1 }
  end,
}
