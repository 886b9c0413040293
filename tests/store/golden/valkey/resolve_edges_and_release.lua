-- resolve_edges_and_release(partition_key, flow_id, downstream_eid, version, success_count, fail_count, skip_count, running_count, group_state, satisfied_at_ms, cancel_siblings_pending_flag, cancel_siblings_pending_members, cancel_siblings_reason, satisfied, now, impossible, told, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms)
local constant_0 = { 'success_count', 'fail_count', 'skip_count', 'running_count', 'group_state', 'satisfied_at_ms', 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members', 'cancel_siblings_reason', 'version' }
local constant_1 = { 'dep_state', 'last_resolved_at_ms' }
local constant_2 = { 'dep_state', 'last_resolved_at_ms' }
local constant_3 = { 'dispatched_at_ms' }
local constant_4 = { 'version', 'last_mutation_at', 'last_transition_at', 'eligibility_state', 'blocking_reason', 'public_state', 'ownership_state', 'blocking_detail' }
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
      local pk = int(n.partition_key) .. uuid(n.downstream_eid)
      local r = n.partition_key ~= nil and n.downstream_eid ~= nil and fetch(T.ff_exec_core, pk)
      if r and r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then
        local c0 = required(plus(r.version, '1'), 'version')
        local c1 = required(time, 'last_mutation_at')
        local c2 = required(time, 'last_transition_at')
        local c3 = required(a[19], 'eligibility_state')
        local c4 = required(a[20], 'blocking_reason')
        local c5 = required(a[21], 'public_state')
        local g0, m0
        if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local g2, m2
        if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g2, m2 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
        local g5, m5
        if r.ownership_state == 'leased' then g5, m5 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
        local g6, m6
        if r.ownership_state == 'lease_expired_reclaimable' then g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
        local g10, m10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
        if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
        if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
        if r.eligibility_state ~= c3 then k = k + 2 s[k - 1], s[k] = 'sBF', c3 end
        if r.blocking_reason ~= c4 then if c4 == 'none' then j = j + 1 u[j] = 'nDk' else k = k + 2 s[k - 1], s[k] = 'nDk', c4 end end
        if r.public_state ~= c5 then k = k + 2 s[k - 1], s[k] = 'dV2', c5 end
        if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
        if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
        note_change(T.ff_exec_core, pk, r, constant_4, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, public_state = r.public_state, ownership_state = r.ownership_state, blocking_detail = r.blocking_detail })
        r.version = c0
        r.last_mutation_at = c1
        r.last_transition_at = c2
        r.eligibility_state = c3
        r.blocking_reason = c4
        r.public_state = c5
        r.ownership_state = 'unowned'
        r.blocking_detail = ''
        local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
        local h1, o1
        if r.eligibility_state == 'eligible_now' then h1, o1 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local h3, o3
        if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then h3, o3 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local h4, o4
        if r.eligibility_state == 'not_eligible_until_time' then h4, o4 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
        local h7, o7
        if r.eligibility_state == 'blocked_by_route' then h7, o7 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local h8, o8
        if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then h8, o8 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local h9, o9
        if (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then h9, o9 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local h10, o10
        if r.eligibility_state == 'blocked_by_dependencies' then h10, o10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        change(T.ff_exec_core, pk, s, u)
        move(I.unowned, g0, m0, h0, o0)
        if o1 then add(I.ready, h1, o1) end
        if m2 then remove(I.held, g2, m2) end
        if o3 then add(I.blocked_on, h3, o3) end
        if o4 then add(I.delayed, h4, o4) end
        if m5 then remove(I.leased, g5, m5) end
        if m6 then remove(I.lost, g6, m6) end
        if o7 then add(I.routed, h7, o7) end
        if o8 then add(I.limited, h8, o8) end
        if o9 then add(I.blocked, h9, o9) end
        move(I.dependent, g10, m10, h10, o10)
      end
    end
    wake('ready', 's', a[22], '')
    wake('delayed', '', '', a[23])
    return { 1 }
  end,
}
