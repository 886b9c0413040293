-- set_edge_policy(partition_key, flow_id, version, downstream_eid, group_version, policy, k_target)
local constant_0 = { 'version' }
local constant_1 = { 'policy', 'k_target', 'success_count', 'fail_count', 'skip_count', 'running_count', 'group_state', 'version' }
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
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[5])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[6])) then refuse(1) end
      local c0 = required(a[7], 'policy')
      local c1 = required(a[8], 'k_target')
      local c7 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.policy ~= c0 then if c0 == '{}' then j = j + 1 u[j] = 'Yji' else k = k + 2 s[k - 1], s[k] = 'Yji', c0 end end
      if r.k_target ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'Z2r' else k = k + 2 s[k - 1], s[k] = 'Z2r', c1 end end
      if r.success_count ~= '0' then j = j + 1 u[j] = 'lKP' end
      if r.fail_count ~= '0' then j = j + 1 u[j] = 'GcE' end
      if r.skip_count ~= '0' then j = j + 1 u[j] = 'Cqa' end
      if r.running_count ~= '0' then j = j + 1 u[j] = 'wsV' end
      if r.group_state ~= 'pending' then j = j + 1 u[j] = 'woT' end
      if r.version ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c7 end end
      note_change(T.ff_edge_group, pk, r, constant_1, { policy = r.policy, k_target = r.k_target, success_count = r.success_count, fail_count = r.fail_count, skip_count = r.skip_count, running_count = r.running_count, group_state = r.group_state, version = r.version })
      r.policy = c0
      r.k_target = c1
      r.success_count = '0'
      r.fail_count = '0'
      r.skip_count = '0'
      r.running_count = '0'
      r.group_state = 'pending'
      r.version = c7
      change(T.ff_edge_group, pk, s, u)
    end
    return { 1 }
  end,
}
