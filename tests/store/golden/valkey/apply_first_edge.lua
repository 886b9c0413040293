-- apply_first_edge(partition_key, flow_id, downstream_eid, edge_id, now, blocking_detail)
local constant_0 = { 'edge_state', 'applied_at_ms', 'dep_state' }
local constant_1 = { 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'version', 'last_transition_at', 'last_mutation_at' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_downstream_eid = required(a[4], 'downstream_eid')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_downstream_eid)
      if exists(T.ff_edge_group, pk) then refuse(0) end
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'zje', v_downstream_eid, 'Yji', '{"kind":"all_of"}', 'wsV', '1' }, 10
      make(T.ff_edge_group, pk, s)
    end
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[5])
      local r = a[2] ~= nil and a[3] ~= nil and a[5] ~= nil and fetch(T.ff_edge, pk)
      if r then
        local c1 = a[6]
        local s, k, u, j = {}, 0, {}, 0
        if r.edge_state ~= 'applied' then k = k + 2 s[k - 1], s[k] = 'UZq', 'applied' end
        if r.applied_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = '7Y5' else k = k + 2 s[k - 1], s[k] = '7Y5', c1 end end
        if r.dep_state ~= 'unsatisfied' then k = k + 2 s[k - 1], s[k] = '03T', 'unsatisfied' end
        note_change(T.ff_edge, pk, r, constant_0, { edge_state = r.edge_state, applied_at_ms = r.applied_at_ms, dep_state = r.dep_state })
        r.edge_state = 'applied'
        r.applied_at_ms = c1
        r.dep_state = 'unsatisfied'
        change(T.ff_edge, pk, s, u)
      end
    end
    do
      local pk = int(a[2]) .. uuid(a[4])
      local r = a[2] ~= nil and a[4] ~= nil and fetch(T.ff_exec_core, pk)
      if r and (r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'submitted') and r.terminal_outcome == 'none' then
        local c4 = required(a[7], 'blocking_detail')
        local c7 = required(plus(r.version, '1'), 'version')
        local c8 = required(a[6], 'last_transition_at')
        local c9 = required(a[6], 'last_mutation_at')
        local g0, m0
        if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local g1, m1
        if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g1, m1 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local g2, m2
        if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g2, m2 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
        local g3, m3
        if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g3, m3 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local g4, m4
        if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then g4, m4 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
        local g5, m5
        if r.ownership_state == 'leased' then g5, m5 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
        local g6, m6
        if r.ownership_state == 'lease_expired_reclaimable' then g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
        local g7, m7
        if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' then g7, m7 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local g8, m8
        if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then g8, m8 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local g9, m9
        if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then g9, m9 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local g10, m10
        if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then g10, m10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
        if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
        if r.eligibility_state ~= 'blocked_by_dependencies' then k = k + 2 s[k - 1], s[k] = 'sBF', 'blocked_by_dependencies' end
        if r.blocking_reason ~= 'waiting_for_children' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_children' end
        if r.blocking_detail ~= c4 then if c4 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c4 end end
        if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
        if r.public_state ~= 'waiting_children' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting_children' end
        if r.version ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c7 end end
        if r.last_transition_at ~= c8 then if c8 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c8 end end
        if r.last_mutation_at ~= c9 then if c9 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c9 end end
        note_change(T.ff_exec_core, pk, r, constant_1, { lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, version = r.version, last_transition_at = r.last_transition_at, last_mutation_at = r.last_mutation_at })
        r.lifecycle_phase = 'runnable'
        r.ownership_state = 'unowned'
        r.eligibility_state = 'blocked_by_dependencies'
        r.blocking_reason = 'waiting_for_children'
        r.blocking_detail = c4
        r.terminal_outcome = 'none'
        r.public_state = 'waiting_children'
        r.version = c7
        r.last_transition_at = c8
        r.last_mutation_at = c9
        local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
        local h10, o10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
        change(T.ff_exec_core, pk, s, u)
        move(I.unowned, g0, m0, h0, o0)
        if m1 then remove(I.ready, g1, m1) end
        if m2 then remove(I.held, g2, m2) end
        if m3 then remove(I.blocked_on, g3, m3) end
        if m4 then remove(I.delayed, g4, m4) end
        if m5 then remove(I.leased, g5, m5) end
        if m6 then remove(I.lost, g6, m6) end
        if m7 then remove(I.routed, g7, m7) end
        if m8 then remove(I.limited, g8, m8) end
        if m9 then remove(I.blocked, g9, m9) end
        move(I.dependent, g10, m10, h10, o10)
      end
    end
    return { 1 }
  end,
}
