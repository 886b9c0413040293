-- move_ready_execution(partition_key, execution_id, version, lane_id, budget_ids, quota_policy_id, gate, now, details)
local function is_met_0(r, a, b, n, time) return r and (r.state == 'draining' or r.state == 'disabled') end
local constant_1 = { 'reserved_for', 'reserved_until_ms', 'lane_id', 'budget_ids', 'quota_policy_id', 'gate', 'version', 'last_mutation_at', 'last_transition_at', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'blocked_on' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and not (a[5] ~= nil and is_met_0(fetch(T.ff_lane_registry, word(a[5])), a, b, n, time))) then refuse(0) end
      local c2 = required(a[5], 'lane_id')
      local c3 = required(a[6], 'budget_ids')
      local c4 = a[7]
      local c5 = required(a[8], 'gate')
      local c6 = required(plus(r.version, '1'), 'version')
      local c7 = required(a[9], 'last_mutation_at')
      local c8 = required(a[9], 'last_transition_at')
      local g0, m0
      if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1
      if r.lifecycle_phase == 'suspended' then g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g2, m2
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g2, m2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g3, m3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g4, m4
      if r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil then g4, m4 = uuid(r.quota_policy_id), int(r.reserved_until_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g5, m5 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g6, m6
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' then g6, m6 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local g7, m7
      if r.ownership_state == 'leased' then g7, m7 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g8, m8
      if r.ownership_state == 'lease_expired_reclaimable' then g8, m8 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g9, m9
      if r.attempt_timeout_at_ms ~= nil and r.lifecycle_phase == 'active' then g9, m9 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local g10, m10
      if r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') then g10, m10 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local g11, m11
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' then g11, m11 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g12, m12
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then g12, m12 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g13, m13
      if r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then g13, m13 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local g14, m14
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then g14, m14 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g15, m15
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then g15, m15 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g16, m16
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then g16, m16 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      local g17, m17
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' then g17, m17 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.reserved_for ~= nil then j = j + 1 u[j] = 'una' end
      if r.reserved_until_ms ~= nil then j = j + 1 u[j] = '2Tv' end
      if r.lane_id ~= c2 then k = k + 2 s[k - 1], s[k] = 'tbW', c2 end
      if r.budget_ids ~= c3 then if c3 == '[]' then j = j + 1 u[j] = '3cE' else k = k + 2 s[k - 1], s[k] = '3cE', c3 end end
      if r.quota_policy_id ~= c4 then if c4 == nil then j = j + 1 u[j] = 's1f' else k = k + 2 s[k - 1], s[k] = 's1f', c4 end end
      if r.gate ~= c5 then if c5 == '' then j = j + 1 u[j] = 'SZK' else k = k + 2 s[k - 1], s[k] = 'SZK', c5 end end
      if r.version ~= c6 then if c6 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c6 end end
      if r.last_mutation_at ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c7 end end
      if r.last_transition_at ~= c8 then if c8 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c8 end end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'eligible_now' then k = k + 2 s[k - 1], s[k] = 'sBF', 'eligible_now' end
      if r.blocking_reason ~= 'waiting_for_worker' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_worker' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'waiting' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting' end
      if r.blocked_on ~= nil then j = j + 1 u[j] = 'o9y' end
      note_change(T.ff_exec_core, pk, r, constant_1, { reserved_for = r.reserved_for, reserved_until_ms = r.reserved_until_ms, lane_id = r.lane_id, budget_ids = r.budget_ids, quota_policy_id = r.quota_policy_id, gate = r.gate, version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, blocked_on = r.blocked_on })
      r.reserved_for = nil
      r.reserved_until_ms = nil
      r.lane_id = c2
      r.budget_ids = c3
      r.quota_policy_id = c4
      r.gate = c5
      r.version = c6
      r.last_mutation_at = c7
      r.last_transition_at = c8
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'eligible_now'
      r.blocking_reason = 'waiting_for_worker'
      r.blocking_detail = ''
      r.terminal_outcome = 'none'
      r.public_state = 'waiting'
      r.blocked_on = nil
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h2, o2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h10, o10
      if r.deadline_at_ms ~= nil then h10, o10 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      if m1 then remove(I.suspended_executions, g1, m1) end
      move(I.ready, g2, m2, h2, o2)
      if m3 then remove(I.held, g3, m3) end
      if m4 then remove(I.reserved, g4, m4) end
      if m5 then remove(I.blocked_on, g5, m5) end
      if m6 then remove(I.delayed, g6, m6) end
      if m7 then remove(I.leased, g7, m7) end
      if m8 then remove(I.lost, g8, m8) end
      if m9 then remove(I.attempt_timeout, g9, m9) end
      move(I.deadline, g10, m10, h10, o10)
      if m11 then remove(I.routed, g11, m11) end
      if m12 then remove(I.limited, g12, m12) end
      if m13 then remove(I.blocked, g13, m13) end
      if m14 then remove(I.ended, g14, m14) end
      if m15 then remove(I.failed, g15, m15) end
      if m16 then remove(I.retained, g16, m16) end
      if m17 then remove(I.dependent, g17, m17) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_claim_grant, pk)
      if r then
        erase(T.ff_claim_grant, pk)
      end
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_details = a[10]
      local v_occurred_at_ms = required(a[9], 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'moved', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    wake('ready', 's', n.lane_id, '')
    return { 1 }
  end,
}
