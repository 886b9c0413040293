-- set_edge_policy(partition_key, flow_id, version, downstream_eid, group_version, policy, k_target)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      w.version = c0
      put(T.ff_flow_core, pk, w)
      n = w
    end
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[5])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[6])) then refuse(1) end
      local w
      w = copy(r)
      local c0 = required(a[7], 'policy')
      local c1 = required(a[8], 'k_target')
      local c2 = required('0', 'success_count')
      local c3 = required('0', 'fail_count')
      local c4 = required('0', 'skip_count')
      local c5 = required('0', 'running_count')
      local c6 = required('pending', 'group_state')
      local c7 = required(plus(r.version, '1'), 'version')
      w.policy = c0
      w.k_target = c1
      w.success_count = c2
      w.fail_count = c3
      w.skip_count = c4
      w.running_count = c5
      w.group_state = c6
      w.version = c7
      put(T.ff_edge_group, pk, w)
    end
    return row_answer(0, {  })
  end,
}
