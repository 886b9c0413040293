-- resolve_edges(partition_key, flow_id, downstream_eid, version, success_count, fail_count, skip_count, running_count, group_state, satisfied_at_ms, cancel_siblings_pending_flag, cancel_siblings_pending_members, cancel_siblings_reason, satisfied, now, impossible, told)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[6], 'success_count')
      local c1 = required(a[7], 'fail_count')
      local c2 = required(a[8], 'skip_count')
      local c3 = required(a[9], 'running_count')
      local c4 = required(a[10], 'group_state')
      local c5 = a[11]
      local c6 = required(a[12], 'cancel_siblings_pending_flag')
      local c7 = required(a[13], 'cancel_siblings_pending_members')
      local c8 = a[14]
      local c9 = required(plus(r.version, '1'), 'version')
      w.success_count = c0
      w.fail_count = c1
      w.skip_count = c2
      w.running_count = c3
      w.group_state = c4
      w.satisfied_at_ms = c5
      w.cancel_siblings_pending_flag = c6
      w.cancel_siblings_pending_members = c7
      w.cancel_siblings_reason = c8
      w.version = c9
      put(T.ff_edge_group, pk, w)
      n = w
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil then
        for _, k_edge_id in ipairs(a[15]) do
          local pk = int(a[2]) .. uuid(a[3]) .. uuid(k_edge_id)
          local r = fetch(T.ff_edge, pk)
          if r and same(r.partition_key, a[2]) and same(r.flow_id, a[3]) and contains(a[15], r.edge_id) then found[#found + 1] = pk end
        end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        local w
        w = copy(r)
        local c0 = 'satisfied'
        local c1 = a[16]
        w.dep_state = c0
        w.last_resolved_at_ms = c1
        put(T.ff_edge, pk, w)
      end
    end
    do
      local found = {}
      if a[2] ~= nil and a[3] ~= nil then
        for _, k_edge_id in ipairs(a[17]) do
          local pk = int(a[2]) .. uuid(a[3]) .. uuid(k_edge_id)
          local r = fetch(T.ff_edge, pk)
          if r and same(r.partition_key, a[2]) and same(r.flow_id, a[3]) and contains(a[17], r.edge_id) then found[#found + 1] = pk end
        end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        local w
        w = copy(r)
        local c0 = 'impossible'
        local c1 = a[16]
        w.dep_state = c0
        w.last_resolved_at_ms = c1
        put(T.ff_edge, pk, w)
      end
    end
    do
      local found = {}
      for _, k_execution_id in ipairs(a[18]) do
        each_row(I.completion_events_of, uuid(k_execution_id), nil, nil, false, function(pk, r) if contains(a[18], r.execution_id) and r.dispatched_at_ms == nil then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_completion_event, pk)
        local w
        w = copy(r)
        local c0 = now()
        w.dispatched_at_ms = c0
        put(T.ff_completion_event, pk, w)
      end
    end
    return row_answer(0, {  })
  end,
}
