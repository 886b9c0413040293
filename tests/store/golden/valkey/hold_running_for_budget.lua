-- hold_running_for_budget(partition_key, execution_id, version, now, detail, blocked_on, lease_id, worker_instance_id, details)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'attempt_timeout_at_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'blocked_on', 'attempt_state', 'interrupt_cause', 'lease_epoch', 'attempt_timeout_remaining_ms' }
local constant_1 = { 'attempt_state', 'suspended_at_ms', 'lease_expires_at_ms', 'lease_epoch', 'attempt_timeout_remaining_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and r.ownership_state == 'leased') then refuse(0) end
      b = { attempt_timeout_at_ms = r.attempt_timeout_at_ms }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c15 = required(a[6], 'blocking_detail')
      local c18 = a[7]
      local c21 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c22 = until_(b.attempt_timeout_at_ms)
      local g1, m1
      if r.lifecycle_phase == 'suspended' then g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g2, m2
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g2, m2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if r.quota_policy_id ~= nil then g3, m3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g4, m4
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g4, m4 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then g5, m5 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
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
      if r.eligibility_state ~= 'blocked_by_budget' then k = k + 2 s[k - 1], s[k] = 'sBF', 'blocked_by_budget' end
      if r.blocking_reason ~= 'waiting_for_budget' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_budget' end
      if r.blocking_detail ~= c15 then if c15 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c15 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'rate_limited' then k = k + 2 s[k - 1], s[k] = 'dV2', 'rate_limited' end
      if r.blocked_on ~= c18 then if c18 == nil then j = j + 1 u[j] = 'o9y' else k = k + 2 s[k - 1], s[k] = 'o9y', c18 end end
      if r.attempt_state ~= 'attempt_interrupted' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_interrupted' end
      if r.interrupt_cause ~= 'budget' then k = k + 2 s[k - 1], s[k] = 'zbc', 'budget' end
      if r.lease_epoch ~= c21 then if c21 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c21 end end
      if r.attempt_timeout_remaining_ms ~= c22 then if c22 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c22 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_lease_id = r.current_lease_id, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline, lease_expired_at = r.lease_expired_at, attempt_timeout_at_ms = r.attempt_timeout_at_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, blocked_on = r.blocked_on, attempt_state = r.attempt_state, interrupt_cause = r.interrupt_cause, lease_epoch = r.lease_epoch, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
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
      r.eligibility_state = 'blocked_by_budget'
      r.blocking_reason = 'waiting_for_budget'
      r.blocking_detail = c15
      r.terminal_outcome = 'none'
      r.public_state = 'rate_limited'
      r.blocked_on = c18
      r.attempt_state = 'attempt_interrupted'
      r.interrupt_cause = 'budget'
      r.lease_epoch = c21
      r.attempt_timeout_remaining_ms = c22
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h4, o4
      if r.blocked_on ~= nil then h4, o4 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h8, o8
      if r.deadline_at_ms ~= nil then h8, o8 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local h10, o10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      add(I.unowned, h0, o0)
      if m1 then remove(I.suspended_executions, g1, m1) end
      if m2 then remove(I.ready, g2, m2) end
      if m3 then remove(I.held, g3, m3) end
      move(I.blocked_on, g4, m4, h4, o4)
      if m5 then remove(I.delayed, g5, m5) end
      remove(I.leased, g6, m6)
      if m7 then remove(I.attempt_timeout, g7, m7) end
      move(I.deadline, g8, m8, h8, o8)
      if m9 then remove(I.routed, g9, m9) end
      move(I.limited, g10, m10, h10, o10)
      if m11 then remove(I.blocked, g11, m11) end
      if m12 then remove(I.ended, g12, m12) end
      if m13 then remove(I.failed, g13, m13) end
      if m14 then remove(I.retained, g14, m14) end
      if m15 then remove(I.dependent, g15, m15) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c1 = a[5]
        local c3 = required(n.lease_epoch, 'lease_epoch')
        local c4 = n.attempt_timeout_remaining_ms
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'suspended' then k = k + 2 s[k - 1], s[k] = '0m5', 'suspended' end
        if r.suspended_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'Zcl' else k = k + 2 s[k - 1], s[k] = 'Zcl', c1 end end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        if r.lease_epoch ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c3 end end
        if r.attempt_timeout_remaining_ms ~= c4 then if c4 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c4 end end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, suspended_at_ms = r.suspended_at_ms, lease_expires_at_ms = r.lease_expires_at_ms, lease_epoch = r.lease_epoch, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
        r.attempt_state = 'suspended'
        r.suspended_at_ms = c1
        r.lease_expires_at_ms = nil
        r.lease_epoch = c3
        r.attempt_timeout_remaining_ms = c4
        change(T.ff_attempt, pk, s, u)
      end
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_claim_grant, pk)
      if r then
        erase(T.ff_claim_grant, pk)
      end
    end
    do
      local v_event_id = next_number(T.ff_lease_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_lease_id = a[8]
      local v_lease_epoch = n.lease_epoch
      local v_worker_instance_id = a[9]
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'revoked', 'UK4', 'budget', 'fwj', v_occurred_at_ms }, 10
      if v_lease_id ~= nil then k = k + 2 s[k - 1], s[k] = 'wg5', v_lease_id end
      if v_lease_epoch ~= nil then k = k + 2 s[k - 1], s[k] = 'BCm', v_lease_epoch end
      if v_worker_instance_id ~= nil then k = k + 2 s[k - 1], s[k] = 'qqT', v_worker_instance_id end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_lease_event, pk, s)
      add(I.lease_events_of, h0, o0)
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_details = a[10]
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'budget_breached', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_lease_event', '', '', '')
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
