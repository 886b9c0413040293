-- resolve_edges_and_queue(partition_key, flow_id, downstream_eid, version, success_count, fail_count, skip_count, running_count, group_state, satisfied_at_ms, cancel_siblings_pending_flag, cancel_siblings_pending_members, cancel_siblings_reason, satisfied, now, impossible, told)
local constant_0 = { 'success_count', 'fail_count', 'skip_count', 'running_count', 'group_state', 'satisfied_at_ms', 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members', 'cancel_siblings_reason', 'version' }
local constant_1 = { 'dep_state', 'last_resolved_at_ms' }
local constant_2 = { 'dep_state', 'last_resolved_at_ms' }
local constant_3 = { 'dispatched_at_ms' }
local constant_4 = { 'enqueued_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
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
      local s, k, u, j = {}, 0, {}, 0
      if r.success_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'lKP' else k = k + 2 s[k - 1], s[k] = 'lKP', c0 end end
      if r.fail_count ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'GcE' else k = k + 2 s[k - 1], s[k] = 'GcE', c1 end end
      if r.skip_count ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'Cqa' else k = k + 2 s[k - 1], s[k] = 'Cqa', c2 end end
      if r.running_count ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'wsV' else k = k + 2 s[k - 1], s[k] = 'wsV', c3 end end
      if r.group_state ~= c4 then if c4 == 'pending' then j = j + 1 u[j] = 'woT' else k = k + 2 s[k - 1], s[k] = 'woT', c4 end end
      if r.satisfied_at_ms ~= c5 then if c5 == nil then j = j + 1 u[j] = '6De' else k = k + 2 s[k - 1], s[k] = '6De', c5 end end
      if r.cancel_siblings_pending_flag ~= c6 then if c6 == '0' then j = j + 1 u[j] = 'Qta' else k = k + 2 s[k - 1], s[k] = 'Qta', c6 end end
      if r.cancel_siblings_pending_members ~= c7 then if c7 == '[]' then j = j + 1 u[j] = 'HJO' else k = k + 2 s[k - 1], s[k] = 'HJO', c7 end end
      if r.cancel_siblings_reason ~= c8 then if c8 == nil then j = j + 1 u[j] = 'H80' else k = k + 2 s[k - 1], s[k] = 'H80', c8 end end
      if r.version ~= c9 then if c9 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c9 end end
      note_change(T.ff_edge_group, pk, r, constant_0, { success_count = r.success_count, fail_count = r.fail_count, skip_count = r.skip_count, running_count = r.running_count, group_state = r.group_state, satisfied_at_ms = r.satisfied_at_ms, cancel_siblings_pending_flag = r.cancel_siblings_pending_flag, cancel_siblings_pending_members = r.cancel_siblings_pending_members, cancel_siblings_reason = r.cancel_siblings_reason, version = r.version })
      r.success_count = c0
      r.fail_count = c1
      r.skip_count = c2
      r.running_count = c3
      r.group_state = c4
      r.satisfied_at_ms = c5
      r.cancel_siblings_pending_flag = c6
      r.cancel_siblings_pending_members = c7
      r.cancel_siblings_reason = c8
      r.version = c9
      change(T.ff_edge_group, pk, s, u)
      n = r
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
        local c1 = a[16]
        local s, k, u, j = {}, 0, {}, 0
        if r.dep_state ~= 'satisfied' then k = k + 2 s[k - 1], s[k] = '03T', 'satisfied' end
        if r.last_resolved_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'tUJ' else k = k + 2 s[k - 1], s[k] = 'tUJ', c1 end end
        note_change(T.ff_edge, pk, r, constant_1, { dep_state = r.dep_state, last_resolved_at_ms = r.last_resolved_at_ms })
        r.dep_state = 'satisfied'
        r.last_resolved_at_ms = c1
        change(T.ff_edge, pk, s, u)
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
        local c1 = a[16]
        local s, k, u, j = {}, 0, {}, 0
        if r.dep_state ~= 'impossible' then k = k + 2 s[k - 1], s[k] = '03T', 'impossible' end
        if r.last_resolved_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'tUJ' else k = k + 2 s[k - 1], s[k] = 'tUJ', c1 end end
        note_change(T.ff_edge, pk, r, constant_2, { dep_state = r.dep_state, last_resolved_at_ms = r.last_resolved_at_ms })
        r.dep_state = 'impossible'
        r.last_resolved_at_ms = c1
        change(T.ff_edge, pk, s, u)
      end
    end
    do
      local found = {}
      for _, k_execution_id in ipairs(a[18]) do
        each_row(I.completion_events_of, uuid(k_execution_id), nil, nil, false, function(pk, r) if contains(a[18], r.execution_id) and r.dispatched_at_ms == nil then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_completion_event, pk)
        local c0 = time
        local g0, m0
        if r.flow_id ~= nil and (r.outcome ~= nil and r.outcome ~= 'resumable') then g0, m0 = '', int(r.committed_at_ms) .. int(r.event_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.dispatched_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'uIU' else k = k + 2 s[k - 1], s[k] = 'uIU', c0 end end
        note_change(T.ff_completion_event, pk, r, constant_3, { dispatched_at_ms = r.dispatched_at_ms })
        r.dispatched_at_ms = c0
        local h0, o0
        if r.dispatched_at_ms == nil and r.flow_id ~= nil and (r.outcome ~= nil and r.outcome ~= 'resumable') then h0, o0 = '', int(r.committed_at_ms) .. int(r.event_id) .. pk end
        change(T.ff_completion_event, pk, s, u)
        move(I.undispatched, g0, m0, h0, o0)
      end
    end
    do
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_flow_id = required(n.flow_id, 'flow_id')
      local v_downstream_eid = required(n.downstream_eid, 'downstream_eid')
      local v_enqueued_at_ms = required(time, 'enqueued_at_ms')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_downstream_eid)
      local r = fetch(T.ff_pending_cancel_groups, pk)
      if r then
        local c0 = required((r.enqueued_at_ms or time), 'enqueued_at_ms')
        local g0, m0 = '', int(r.enqueued_at_ms) .. uuid(r.flow_id) .. uuid(r.downstream_eid) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.enqueued_at_ms ~= c0 then k = k + 2 s[k - 1], s[k] = 'N2S', c0 end
        note_change(T.ff_pending_cancel_groups, pk, r, constant_4, { enqueued_at_ms = r.enqueued_at_ms })
        r.enqueued_at_ms = c0
        local h0, o0 = '', int(r.enqueued_at_ms) .. uuid(r.flow_id) .. uuid(r.downstream_eid) .. pk
        change(T.ff_pending_cancel_groups, pk, s, u)
        move(I.cancel_groups, g0, m0, h0, o0)
      else
        if exists(T.ff_pending_cancel_groups, pk) then refuse(4) end
        local h0, o0 = '', int(v_enqueued_at_ms) .. uuid(v_flow_id) .. uuid(v_downstream_eid) .. pk
        local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'zje', v_downstream_eid, 'N2S', v_enqueued_at_ms }, 8
        make(T.ff_pending_cancel_groups, pk, s)
        add(I.cancel_groups, h0, o0)
      end
    end
    wake('cancel_groups', '', '', a[16])
    return { 1 }
  end,
}
