-- requeue(partition_key, execution_id, version)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'attempt_timeout_at_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'attempt_state', 'attempt_timeout_remaining_ms' }
local constant_1 = { 'attempt_state', 'suspended_at_ms', 'lease_expires_at_ms', 'outcome', 'attempt_timeout_remaining_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and r.ownership_state == 'lease_expired_reclaimable') then refuse(0) end
      b = { attempt_timeout_ms = r.attempt_timeout_ms }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c19 = b.attempt_timeout_ms
      local g1, m1
      if r.lifecycle_phase == 'suspended' then g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g2, m2
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g2, m2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g3, m3 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g4, m4
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then g4, m4 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local g6, m6
      if r.attempt_timeout_at_ms ~= nil and r.lifecycle_phase == 'active' then g6, m6 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local g7, m7
      if r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') then g7, m7 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local g8, m8
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' then g8, m8 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g9, m9
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then g9, m9 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g10, m10
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then g10, m10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g11, m11
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then g11, m11 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g12, m12
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then g12, m12 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g13, m13
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then g13, m13 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      local g14, m14
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then g14, m14 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.current_lease_id ~= nil then j = j + 1 u[j] = 'UlQ' end
      if r.current_worker_id ~= nil then j = j + 1 u[j] = 'wDg' end
      if r.current_worker_instance_id ~= nil then j = j + 1 u[j] = '1Qq' end
      if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
      if r.lease_last_renewed_at ~= nil then j = j + 1 u[j] = '5lZ' end
      if r.lease_renewal_deadline ~= nil then j = j + 1 u[j] = '6dF' end
      if r.lease_expired_at ~= nil then j = j + 1 u[j] = 'Dom' end
      if r.attempt_timeout_at_ms ~= nil then j = j + 1 u[j] = '7gd' end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'eligible_now' then k = k + 2 s[k - 1], s[k] = 'sBF', 'eligible_now' end
      if r.blocking_reason ~= 'waiting_for_worker' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_worker' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'waiting' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting' end
      if r.attempt_state ~= 'attempt_interrupted' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_interrupted' end
      if r.attempt_timeout_remaining_ms ~= c19 then if c19 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c19 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_lease_id = r.current_lease_id, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline, lease_expired_at = r.lease_expired_at, attempt_timeout_at_ms = r.attempt_timeout_at_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, attempt_state = r.attempt_state, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.current_lease_id = nil
      r.current_worker_id = nil
      r.current_worker_instance_id = nil
      r.lease_expires_at_ms = nil
      r.lease_last_renewed_at = nil
      r.lease_renewal_deadline = nil
      r.lease_expired_at = nil
      r.attempt_timeout_at_ms = nil
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'eligible_now'
      r.blocking_reason = 'waiting_for_worker'
      r.blocking_detail = ''
      r.terminal_outcome = 'none'
      r.public_state = 'waiting'
      r.attempt_state = 'attempt_interrupted'
      r.attempt_timeout_remaining_ms = c19
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h2, o2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h7, o7
      if r.deadline_at_ms ~= nil then h7, o7 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      add(I.unowned, h0, o0)
      if m1 then remove(I.suspended_executions, g1, m1) end
      move(I.ready, g2, m2, h2, o2)
      if m3 then remove(I.blocked_on, g3, m3) end
      if m4 then remove(I.delayed, g4, m4) end
      remove(I.lost, g5, m5)
      if m6 then remove(I.attempt_timeout, g6, m6) end
      move(I.deadline, g7, m7, h7, o7)
      if m8 then remove(I.routed, g8, m8) end
      if m9 then remove(I.limited, g9, m9) end
      if m10 then remove(I.blocked, g10, m10) end
      if m11 then remove(I.ended, g11, m11) end
      if m12 then remove(I.failed, g12, m12) end
      if m13 then remove(I.retained, g13, m13) end
      if m14 then remove(I.dependent, g14, m14) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c1 = time
        local c4 = n.attempt_timeout_remaining_ms
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'suspended' then k = k + 2 s[k - 1], s[k] = '0m5', 'suspended' end
        if r.suspended_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'Zcl' else k = k + 2 s[k - 1], s[k] = 'Zcl', c1 end end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        if r.outcome ~= nil then j = j + 1 u[j] = 'EtN' end
        if r.attempt_timeout_remaining_ms ~= c4 then if c4 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c4 end end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, suspended_at_ms = r.suspended_at_ms, lease_expires_at_ms = r.lease_expires_at_ms, outcome = r.outcome, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
        r.attempt_state = 'suspended'
        r.suspended_at_ms = c1
        r.lease_expires_at_ms = nil
        r.outcome = nil
        r.attempt_timeout_remaining_ms = c4
        change(T.ff_attempt, pk, s, u)
      end
    end
    wake('ready', 's', n.lane_id, '')
    return { 1 }
  end,
}
