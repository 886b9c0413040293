-- reset_edge_group(partition_key, flow_id, downstream_eid, version, running_count, now)
local constant_0 = { 'fail_count', 'skip_count', 'running_count', 'group_state', 'satisfied_at_ms', 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members', 'version' }
local constant_1 = { 'dep_state', 'last_resolved_at_ms', 'reset_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      local c2 = required(a[6], 'running_count')
      local c7 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.fail_count ~= '0' then j = j + 1 u[j] = 'GcE' end
      if r.skip_count ~= '0' then j = j + 1 u[j] = 'Cqa' end
      if r.running_count ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'wsV' else k = k + 2 s[k - 1], s[k] = 'wsV', c2 end end
      if r.group_state ~= 'pending' then j = j + 1 u[j] = 'woT' end
      if r.satisfied_at_ms ~= nil then j = j + 1 u[j] = '6De' end
      if r.cancel_siblings_pending_flag ~= '0' then j = j + 1 u[j] = 'Qta' end
      if r.cancel_siblings_pending_members ~= '[]' then j = j + 1 u[j] = 'HJO' end
      if r.version ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c7 end end
      note_change(T.ff_edge_group, pk, r, constant_0, { fail_count = r.fail_count, skip_count = r.skip_count, running_count = r.running_count, group_state = r.group_state, satisfied_at_ms = r.satisfied_at_ms, cancel_siblings_pending_flag = r.cancel_siblings_pending_flag, cancel_siblings_pending_members = r.cancel_siblings_pending_members, version = r.version })
      r.fail_count = '0'
      r.skip_count = '0'
      r.running_count = c2
      r.group_state = 'pending'
      r.satisfied_at_ms = nil
      r.cancel_siblings_pending_flag = '0'
      r.cancel_siblings_pending_members = '[]'
      r.version = c7
      change(T.ff_edge_group, pk, s, u)
      n = r
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.downstream_eid ~= nil then
        each_row(I.edges_in, int(n.partition_key) .. uuid(n.downstream_eid), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.downstream_eid, n.downstream_eid) and same(r.flow_id, n.flow_id) and r.dep_state == 'impossible' then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        local c2 = a[7]
        local s, k, u, j = {}, 0, {}, 0
        if r.dep_state ~= 'unsatisfied' then k = k + 2 s[k - 1], s[k] = '03T', 'unsatisfied' end
        if r.last_resolved_at_ms ~= nil then j = j + 1 u[j] = 'tUJ' end
        if r.reset_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'Ont' else k = k + 2 s[k - 1], s[k] = 'Ont', c2 end end
        note_change(T.ff_edge, pk, r, constant_1, { dep_state = r.dep_state, last_resolved_at_ms = r.last_resolved_at_ms, reset_at_ms = r.reset_at_ms })
        r.dep_state = 'unsatisfied'
        r.last_resolved_at_ms = nil
        r.reset_at_ms = c2
        change(T.ff_edge, pk, s, u)
      end
    end
    do
      local pk = int(n.partition_key) .. uuid(n.flow_id) .. uuid(n.downstream_eid)
      local r = n.partition_key ~= nil and n.flow_id ~= nil and n.downstream_eid ~= nil and fetch(T.ff_pending_cancel_groups, pk)
      if r then
        erase(T.ff_pending_cancel_groups, pk)
      end
    end
    return { 1 }
  end,
}
