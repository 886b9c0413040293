-- block_laneblock(partition_key, execution_id, version, now, detail, blocked_on)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'blocked_on' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c7 = required(a[6], 'blocking_detail')
      local c10 = a[7]
      local g0, m0
      if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1
      if r.lifecycle_phase == 'suspended' then g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g2, m2
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g2, m2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g3, m3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g4, m4
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g4, m4 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then g5, m5 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local g6, m6
      if r.ownership_state == 'leased' then g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g7, m7
      if r.ownership_state == 'lease_expired_reclaimable' then g7, m7 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g8, m8
      if r.attempt_timeout_at_ms ~= nil and r.lifecycle_phase == 'active' then g8, m8 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local g9, m9
      if r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') then g9, m9 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local g10, m10
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' then g10, m10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g11, m11
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then g11, m11 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g12, m12
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then g12, m12 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g13, m13
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then g13, m13 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g14, m14
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then g14, m14 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g15, m15
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then g15, m15 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      local g16, m16
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then g16, m16 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'blocked_by_lane_state' then k = k + 2 s[k - 1], s[k] = 'sBF', 'blocked_by_lane_state' end
      if r.blocking_reason ~= 'paused_by_policy' then k = k + 2 s[k - 1], s[k] = 'nDk', 'paused_by_policy' end
      if r.blocking_detail ~= c7 then if c7 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c7 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'waiting' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting' end
      if r.blocked_on ~= c10 then if c10 == nil then j = j + 1 u[j] = 'o9y' else k = k + 2 s[k - 1], s[k] = 'o9y', c10 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, blocked_on = r.blocked_on })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'blocked_by_lane_state'
      r.blocking_reason = 'paused_by_policy'
      r.blocking_detail = c7
      r.terminal_outcome = 'none'
      r.public_state = 'waiting'
      r.blocked_on = c10
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h9, o9
      if r.deadline_at_ms ~= nil then h9, o9 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local h12, o12 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      if m1 then remove(I.suspended_executions, g1, m1) end
      if m2 then remove(I.ready, g2, m2) end
      if m3 then remove(I.held, g3, m3) end
      if m4 then remove(I.blocked_on, g4, m4) end
      if m5 then remove(I.delayed, g5, m5) end
      if m6 then remove(I.leased, g6, m6) end
      if m7 then remove(I.lost, g7, m7) end
      if m8 then remove(I.attempt_timeout, g8, m8) end
      move(I.deadline, g9, m9, h9, o9)
      if m10 then remove(I.routed, g10, m10) end
      if m11 then remove(I.limited, g11, m11) end
      move(I.blocked, g12, m12, h12, o12)
      if m13 then remove(I.ended, g13, m13) end
      if m14 then remove(I.failed, g14, m14) end
      if m15 then remove(I.retained, g15, m15) end
      if m16 then remove(I.dependent, g16, m16) end
      n = r
    end
    return { 1 }
  end,
}
