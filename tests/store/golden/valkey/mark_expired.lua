-- mark_expired(partition_key, execution_id, version)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'attempt_state', 'lease_expired_at', 'expired_epoch', 'interrupt_cause', 'attempt_timeout_at_ms', 'attempt_timeout_remaining_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and r.ownership_state == 'leased' and up_to(r.lease_expires_at_ms, time)) then refuse(0) end
      b = { lease_epoch = r.lease_epoch, attempt_timeout_ms = r.attempt_timeout_ms }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c11 = time
      local c12 = b.lease_epoch
      local c15 = b.attempt_timeout_ms
      local g0, m0
      if r.lifecycle_phase == 'suspended' then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g1, m1 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g2, m2
      if r.quota_policy_id ~= nil then g2, m2 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g3, m3
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g3, m3 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g4, m4
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then g4, m4 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local g7, m7
      if r.attempt_timeout_at_ms ~= nil and r.lifecycle_phase == 'active' then g7, m7 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local g8, m8
      if r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') then g8, m8 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local g9, m9
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' then g9, m9 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g10, m10
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then g10, m10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g11, m11
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then g11, m11 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g12, m12
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then g12, m12 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g13, m13
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then g13, m13 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g14, m14
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then g14, m14 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      local g15, m15
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then g15, m15 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.lifecycle_phase ~= 'active' then k = k + 2 s[k - 1], s[k] = 'ktU', 'active' end
      if r.ownership_state ~= 'lease_expired_reclaimable' then k = k + 2 s[k - 1], s[k] = 'mvo', 'lease_expired_reclaimable' end
      if r.eligibility_state ~= 'not_applicable' then k = k + 2 s[k - 1], s[k] = 'sBF', 'not_applicable' end
      if r.blocking_reason ~= 'waiting_for_worker' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_worker' end
      if r.blocking_detail ~= 'lease expired, awaiting reclaim' then k = k + 2 s[k - 1], s[k] = 's1n', 'lease expired, awaiting reclaim' end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'active' then k = k + 2 s[k - 1], s[k] = 'dV2', 'active' end
      if r.attempt_state ~= 'attempt_interrupted' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_interrupted' end
      if r.lease_expired_at ~= c11 then if c11 == nil then j = j + 1 u[j] = 'Dom' else k = k + 2 s[k - 1], s[k] = 'Dom', c11 end end
      if r.expired_epoch ~= c12 then if c12 == nil then j = j + 1 u[j] = 'QNh' else k = k + 2 s[k - 1], s[k] = 'QNh', c12 end end
      if r.interrupt_cause ~= 'lease_expired' then k = k + 2 s[k - 1], s[k] = 'zbc', 'lease_expired' end
      if r.attempt_timeout_at_ms ~= nil then j = j + 1 u[j] = '7gd' end
      if r.attempt_timeout_remaining_ms ~= c15 then if c15 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c15 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, attempt_state = r.attempt_state, lease_expired_at = r.lease_expired_at, expired_epoch = r.expired_epoch, interrupt_cause = r.interrupt_cause, attempt_timeout_at_ms = r.attempt_timeout_at_ms, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.lifecycle_phase = 'active'
      r.ownership_state = 'lease_expired_reclaimable'
      r.eligibility_state = 'not_applicable'
      r.blocking_reason = 'waiting_for_worker'
      r.blocking_detail = 'lease expired, awaiting reclaim'
      r.terminal_outcome = 'none'
      r.public_state = 'active'
      r.attempt_state = 'attempt_interrupted'
      r.lease_expired_at = c11
      r.expired_epoch = c12
      r.interrupt_cause = 'lease_expired'
      r.attempt_timeout_at_ms = nil
      r.attempt_timeout_remaining_ms = c15
      local h6, o6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local h8, o8
      if r.deadline_at_ms ~= nil then h8, o8 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      if m0 then remove(I.suspended_executions, g0, m0) end
      if m1 then remove(I.ready, g1, m1) end
      if m2 then remove(I.held, g2, m2) end
      if m3 then remove(I.blocked_on, g3, m3) end
      if m4 then remove(I.delayed, g4, m4) end
      remove(I.leased, g5, m5)
      add(I.lost, h6, o6)
      if m7 then remove(I.attempt_timeout, g7, m7) end
      move(I.deadline, g8, m8, h8, o8)
      if m9 then remove(I.routed, g9, m9) end
      if m10 then remove(I.limited, g10, m10) end
      if m11 then remove(I.blocked, g11, m11) end
      if m12 then remove(I.ended, g12, m12) end
      if m13 then remove(I.failed, g13, m13) end
      if m14 then remove(I.retained, g14, m14) end
      if m15 then remove(I.dependent, g15, m15) end
      n = r
    end
    do
      local v_event_id = next_number(T.ff_lease_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_lease_id = n.current_lease_id
      local v_lease_epoch = n.lease_epoch
      local v_worker_instance_id = n.current_worker_instance_id
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'expired', 'fwj', v_occurred_at_ms }, 8
      if v_lease_id ~= nil then k = k + 2 s[k - 1], s[k] = 'wg5', v_lease_id end
      if v_lease_epoch ~= nil then k = k + 2 s[k - 1], s[k] = 'BCm', v_lease_epoch end
      if v_worker_instance_id ~= nil then k = k + 2 s[k - 1], s[k] = 'qqT', v_worker_instance_id end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_lease_event, pk, s)
      add(I.lease_events_of, h0, o0)
    end
    wake('ff_lease_event', '', '', '')
    wake('leased', '', '', n.lease_expires_at_ms)
    return { 1 }
  end,
}
