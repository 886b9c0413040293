-- apply_first_edge(partition_key, flow_id, downstream_eid, edge_id, now, blocking_detail)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        downstream_eid = required(a[4], 'downstream_eid'),
        policy = required('{"kind":"all_of"}', 'policy'),
        running_count = required('1', 'running_count'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. uuid(row.downstream_eid)
      n = insert(T.ff_edge_group, pk, row, 0)
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil and a[5] ~= nil then
        local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[5])
        local r = fetch(T.ff_edge, pk)
        if r and same(r.partition_key, a[2]) and same(r.flow_id, a[3]) and same(r.edge_id, a[5]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        local w
        w = copy(r)
        local c0 = required('applied', 'edge_state')
        local c1 = a[6]
        local c2 = 'unsatisfied'
        w.edge_state = c0
        w.applied_at_ms = c1
        w.dep_state = c2
        put(T.ff_edge, pk, w)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[4] ~= nil then
        local pk = int(a[2]) .. uuid(a[4])
        local r = fetch(T.ff_exec_core, pk)
        if r and same(r.partition_key, a[2]) and same(r.execution_id, a[4]) and (r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'submitted') and same(r.terminal_outcome, 'none') then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_exec_core, pk)
        local w
        w = copy(r)
        local c0 = required('runnable', 'lifecycle_phase')
        local c1 = required('unowned', 'ownership_state')
        local c2 = required('blocked_by_dependencies', 'eligibility_state')
        local c3 = required('waiting_for_children', 'blocking_reason')
        local c4 = required(a[7], 'blocking_detail')
        local c5 = required('none', 'terminal_outcome')
        local c6 = required('waiting_children', 'public_state')
        local c7 = required(plus(r.version, '1'), 'version')
        local c8 = required(a[6], 'last_transition_at')
        local c9 = required(a[6], 'last_mutation_at')
        w.lifecycle_phase = c0
        w.ownership_state = c1
        w.eligibility_state = c2
        w.blocking_reason = c3
        w.blocking_detail = c4
        w.terminal_outcome = c5
        w.public_state = c6
        w.version = c7
        w.last_transition_at = c8
        w.last_mutation_at = c9
        put(T.ff_exec_core, pk, w)
      end
    end
    return row_answer(0, {  })
  end,
}
