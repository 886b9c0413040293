-- release_blocked(partition_key, execution_id, version, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'eligibility_state', 'blocking_reason', 'public_state', 'ownership_state', 'blocking_detail' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c3 = required(a[5], 'eligibility_state')
      local c4 = required(a[6], 'blocking_reason')
      local c5 = required(a[7], 'public_state')
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
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.eligibility_state ~= c3 then k = k + 2 s[k - 1], s[k] = 'sBF', c3 end
      if r.blocking_reason ~= c4 then if c4 == 'none' then j = j + 1 u[j] = 'nDk' else k = k + 2 s[k - 1], s[k] = 'nDk', c4 end end
      if r.public_state ~= c5 then k = k + 2 s[k - 1], s[k] = 'dV2', c5 end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, public_state = r.public_state, ownership_state = r.ownership_state, blocking_detail = r.blocking_detail })
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
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then h1, o1 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h3, o3
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then h3, o3 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h4, o4
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then h4, o4 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local h7, o7
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' then h7, o7 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local h8, o8
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then h8, o8 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local h9, o9
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then h9, o9 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local h10, o10
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then h10, o10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      move(I.ready, g1, m1, h1, o1)
      if m2 then remove(I.held, g2, m2) end
      move(I.blocked_on, g3, m3, h3, o3)
      move(I.delayed, g4, m4, h4, o4)
      if m5 then remove(I.leased, g5, m5) end
      if m6 then remove(I.lost, g6, m6) end
      move(I.routed, g7, m7, h7, o7)
      move(I.limited, g8, m8, h8, o8)
      move(I.blocked, g9, m9, h9, o9)
      move(I.dependent, g10, m10, h10, o10)
      n = r
    end
    wake('ready', 's', a[8], '')
    wake('delayed', '', '', a[9])
    return { 1 }
  end,
}
