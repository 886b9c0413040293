-- hold_ready_for_budget(partition_key, execution_id, version, now, detail, blocked_on, details)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'reserved_for', 'reserved_until_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'blocked_on' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and r.eligibility_state == 'eligible_now') then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c9 = required(a[6], 'blocking_detail')
      local c12 = a[7]
      local g0, m0
      if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1
      if r.lifecycle_phase == 'suspended' then g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g2, m2
      if r.lifecycle_phase == 'runnable' then g2, m2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g3, m3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g4, m4
      if r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil then g4, m4 = uuid(r.quota_policy_id), int(r.reserved_until_ms) .. uuid(r.execution_id) .. pk end
      local g6, m6
      if r.ownership_state == 'leased' then g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g7, m7
      if r.ownership_state == 'lease_expired_reclaimable' then g7, m7 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g8, m8
      if r.attempt_timeout_at_ms ~= nil and r.lifecycle_phase == 'active' then g8, m8 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local g9, m9
      if r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') then g9, m9 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local g11, m11
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then g11, m11 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g12, m12
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then g12, m12 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g13, m13
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then g13, m13 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.reserved_for ~= nil then j = j + 1 u[j] = 'una' end
      if r.reserved_until_ms ~= nil then j = j + 1 u[j] = '2Tv' end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'blocked_by_budget' then k = k + 2 s[k - 1], s[k] = 'sBF', 'blocked_by_budget' end
      if r.blocking_reason ~= 'waiting_for_budget' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_budget' end
      if r.blocking_detail ~= c9 then if c9 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c9 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'rate_limited' then k = k + 2 s[k - 1], s[k] = 'dV2', 'rate_limited' end
      if r.blocked_on ~= c12 then if c12 == nil then j = j + 1 u[j] = 'o9y' else k = k + 2 s[k - 1], s[k] = 'o9y', c12 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, reserved_for = r.reserved_for, reserved_until_ms = r.reserved_until_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, blocked_on = r.blocked_on })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.reserved_for = nil
      r.reserved_until_ms = nil
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'blocked_by_budget'
      r.blocking_reason = 'waiting_for_budget'
      r.blocking_detail = c9
      r.terminal_outcome = 'none'
      r.public_state = 'rate_limited'
      r.blocked_on = c12
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h5, o5
      if r.blocked_on ~= nil then h5, o5 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h9, o9
      if r.deadline_at_ms ~= nil then h9, o9 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local h10, o10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      if m1 then remove(I.suspended_executions, g1, m1) end
      if m2 then remove(I.ready, g2, m2) end
      if m3 then remove(I.held, g3, m3) end
      if m4 then remove(I.reserved, g4, m4) end
      if o5 then add(I.blocked_on, h5, o5) end
      if m6 then remove(I.leased, g6, m6) end
      if m7 then remove(I.lost, g7, m7) end
      if m8 then remove(I.attempt_timeout, g8, m8) end
      move(I.deadline, g9, m9, h9, o9)
      add(I.limited, h10, o10)
      if m11 then remove(I.ended, g11, m11) end
      if m12 then remove(I.failed, g12, m12) end
      if m13 then remove(I.retained, g13, m13) end
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
      local v_details = a[8]
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
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
