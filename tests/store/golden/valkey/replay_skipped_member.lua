-- replay_skipped_member(partition_key, execution_id, version, now, attempt_id, replay_reason, replay_requested_by, deadline_at_ms, deadline_origin, raw_fields, blocking_detail, details)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'attempt_state', 'replay_count', 'lease_epoch', 'current_attempt_id', 'attempt_timeout_remaining_ms', 'pending_replay_reason', 'pending_replay_requested_by', 'pending_previous_attempt_index', 'deadline_at_ms', 'deadline_origin', 'raw_fields', 'terminal_at_ms', 'retain_until_ms', 'result', 'result_encoding', 'cancellation_reason', 'cancelled_by', 'failure_reason', 'closing_epoch', 'closing_attempt_index', 'interrupt_cause', 'pending_retry_reason', 'blocked_on', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state' }
local constant_1 = { 'attempt_state', 'attempt_type', 'attempt_id', 'lease_epoch', 'replay_reason', 'replay_requested_by', 'replayed_from_attempt_index', 'outcome', 'terminal_at_ms', 'failure_reason', 'failure_category', 'worker_id', 'worker_instance_id', 'lease_expires_at_ms' }
local constant_2 = { 'settled_at_ms', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = { attempt_timeout_ms = r.attempt_timeout_ms, attempt_index = r.attempt_index }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c4 = required(plus(r.replay_count, '1'), 'replay_count')
      local c5 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c6 = a[6]
      local c7 = b.attempt_timeout_ms
      local c8 = a[7]
      local c9 = a[8]
      local c10 = b.attempt_index
      local c11 = a[9]
      local c12 = a[10]
      local c13 = required(a[11], 'raw_fields')
      local c30 = required(a[12], 'blocking_detail')
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
      local l, kl, m, jl = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.attempt_state ~= 'pending_replay_attempt' then k = k + 2 s[k - 1], s[k] = '0m5', 'pending_replay_attempt' end
      if r.replay_count ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'qG2' else k = k + 2 s[k - 1], s[k] = 'qG2', c4 end end
      if r.lease_epoch ~= c5 then if c5 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c5 end end
      if r.current_attempt_id ~= c6 then if c6 == nil then j = j + 1 u[j] = 'vdb' else k = k + 2 s[k - 1], s[k] = 'vdb', c6 end end
      if r.attempt_timeout_remaining_ms ~= c7 then if c7 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c7 end end
      if r.pending_replay_reason ~= c8 then if c8 == nil then j = j + 1 u[j] = 'em6' else k = k + 2 s[k - 1], s[k] = 'em6', c8 end end
      if r.pending_replay_requested_by ~= c9 then if c9 == nil then j = j + 1 u[j] = 'JlX' else k = k + 2 s[k - 1], s[k] = 'JlX', c9 end end
      if r.pending_previous_attempt_index ~= c10 then if c10 == nil then j = j + 1 u[j] = 'rK7' else k = k + 2 s[k - 1], s[k] = 'rK7', c10 end end
      if r.deadline_at_ms ~= c11 then if c11 == nil then j = j + 1 u[j] = 'eUt' else k = k + 2 s[k - 1], s[k] = 'eUt', c11 end end
      if r.deadline_origin ~= c12 then if c12 == nil then j = j + 1 u[j] = 'qPt' else k = k + 2 s[k - 1], s[k] = 'qPt', c12 end end
      if r.raw_fields ~= c13 then if c13 == '{}' then j = j + 1 u[j] = 'Wpu' else k = k + 2 s[k - 1], s[k] = 'Wpu', c13 end end
      if r.terminal_at_ms ~= nil then j = j + 1 u[j] = 'Xv6' end
      if r.retain_until_ms ~= nil then j = j + 1 u[j] = 'Fjr' end
      jl = jl + 1 m[jl] = 'xVR'
      if r.result_encoding ~= nil then j = j + 1 u[j] = 'mPh' end
      if r.cancellation_reason ~= nil then j = j + 1 u[j] = 'a2U' end
      if r.cancelled_by ~= nil then j = j + 1 u[j] = 'NdN' end
      if r.failure_reason ~= nil then j = j + 1 u[j] = 'WVp' end
      if r.closing_epoch ~= nil then j = j + 1 u[j] = 'NdX' end
      if r.closing_attempt_index ~= nil then j = j + 1 u[j] = 'sl4' end
      if r.interrupt_cause ~= nil then j = j + 1 u[j] = 'zbc' end
      if r.pending_retry_reason ~= nil then j = j + 1 u[j] = 'fwR' end
      if r.blocked_on ~= nil then j = j + 1 u[j] = 'o9y' end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'blocked_by_dependencies' then k = k + 2 s[k - 1], s[k] = 'sBF', 'blocked_by_dependencies' end
      if r.blocking_reason ~= 'waiting_for_children' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_children' end
      if r.blocking_detail ~= c30 then if c30 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c30 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'waiting_children' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting_children' end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, attempt_state = r.attempt_state, replay_count = r.replay_count, lease_epoch = r.lease_epoch, current_attempt_id = r.current_attempt_id, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms, pending_replay_reason = r.pending_replay_reason, pending_replay_requested_by = r.pending_replay_requested_by, pending_previous_attempt_index = r.pending_previous_attempt_index, deadline_at_ms = r.deadline_at_ms, deadline_origin = r.deadline_origin, raw_fields = r.raw_fields, terminal_at_ms = r.terminal_at_ms, retain_until_ms = r.retain_until_ms, result = large_value(T.ff_exec_core, pk, 'result'), result_encoding = r.result_encoding, cancellation_reason = r.cancellation_reason, cancelled_by = r.cancelled_by, failure_reason = r.failure_reason, closing_epoch = r.closing_epoch, closing_attempt_index = r.closing_attempt_index, interrupt_cause = r.interrupt_cause, pending_retry_reason = r.pending_retry_reason, blocked_on = r.blocked_on, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.attempt_state = 'pending_replay_attempt'
      r.replay_count = c4
      r.lease_epoch = c5
      r.current_attempt_id = c6
      r.attempt_timeout_remaining_ms = c7
      r.pending_replay_reason = c8
      r.pending_replay_requested_by = c9
      r.pending_previous_attempt_index = c10
      r.deadline_at_ms = c11
      r.deadline_origin = c12
      r.raw_fields = c13
      r.terminal_at_ms = nil
      r.retain_until_ms = nil
      r.result = nil
      r.result_encoding = nil
      r.cancellation_reason = nil
      r.cancelled_by = nil
      r.failure_reason = nil
      r.closing_epoch = nil
      r.closing_attempt_index = nil
      r.interrupt_cause = nil
      r.pending_retry_reason = nil
      r.blocked_on = nil
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'blocked_by_dependencies'
      r.blocking_reason = 'waiting_for_children'
      r.blocking_detail = c30
      r.terminal_outcome = 'none'
      r.public_state = 'waiting_children'
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h9, o9
      if r.deadline_at_ms ~= nil then h9, o9 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      local h16, o16 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u, l, m)
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
      if m12 then remove(I.blocked, g12, m12) end
      if m13 then remove(I.ended, g13, m13) end
      if m14 then remove(I.failed, g14, m14) end
      if m15 then remove(I.retained, g15, m15) end
      move(I.dependent, g16, m16, h16, o16)
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c2 = a[6]
        local c3 = required(n.lease_epoch, 'lease_epoch')
        local c4 = a[7]
        local c5 = a[8]
        local c6 = n.attempt_index
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'created' then j = j + 1 u[j] = '0m5' end
        if r.attempt_type ~= 'replay' then k = k + 2 s[k - 1], s[k] = 'dEH', 'replay' end
        if r.attempt_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 'BR4' else k = k + 2 s[k - 1], s[k] = 'BR4', c2 end end
        if r.lease_epoch ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c3 end end
        if r.replay_reason ~= c4 then if c4 == nil then j = j + 1 u[j] = 'zv8' else k = k + 2 s[k - 1], s[k] = 'zv8', c4 end end
        if r.replay_requested_by ~= c5 then if c5 == nil then j = j + 1 u[j] = '5Dt' else k = k + 2 s[k - 1], s[k] = '5Dt', c5 end end
        if r.replayed_from_attempt_index ~= c6 then if c6 == nil then j = j + 1 u[j] = 'azZ' else k = k + 2 s[k - 1], s[k] = 'azZ', c6 end end
        if r.outcome ~= nil then j = j + 1 u[j] = 'EtN' end
        if r.terminal_at_ms ~= nil then j = j + 1 u[j] = 'Xv6' end
        if r.failure_reason ~= nil then j = j + 1 u[j] = 'WVp' end
        if r.failure_category ~= nil then j = j + 1 u[j] = 'Ekd' end
        if r.worker_id ~= nil then j = j + 1 u[j] = 'wDj' end
        if r.worker_instance_id ~= nil then j = j + 1 u[j] = 'qqT' end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, attempt_type = r.attempt_type, attempt_id = r.attempt_id, lease_epoch = r.lease_epoch, replay_reason = r.replay_reason, replay_requested_by = r.replay_requested_by, replayed_from_attempt_index = r.replayed_from_attempt_index, outcome = r.outcome, terminal_at_ms = r.terminal_at_ms, failure_reason = r.failure_reason, failure_category = r.failure_category, worker_id = r.worker_id, worker_instance_id = r.worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms })
        r.attempt_state = 'created'
        r.attempt_type = 'replay'
        r.attempt_id = c2
        r.lease_epoch = c3
        r.replay_reason = c4
        r.replay_requested_by = c5
        r.replayed_from_attempt_index = c6
        r.outcome = nil
        r.terminal_at_ms = nil
        r.failure_reason = nil
        r.failure_category = nil
        r.worker_id = nil
        r.worker_instance_id = nil
        r.lease_expires_at_ms = nil
        change(T.ff_attempt, pk, s, u)
      end
    end
    do
      local pk = int(n.partition_key) .. uuid(n.flow_id)
      local r = n.partition_key ~= nil and n.flow_id ~= nil and fetch(T.ff_flow_core, pk)
      if r then
        local c1 = required(plus(r.version, '1'), 'version')
        local g0, m0
        if r.settled_at_ms == nil then g0, m0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.settled_at_ms ~= nil then j = j + 1 u[j] = 'XsL' end
        if r.version ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c1 end end
        note_change(T.ff_flow_core, pk, r, constant_2, { settled_at_ms = r.settled_at_ms, version = r.version })
        r.settled_at_ms = nil
        r.version = c1
        local h0, o0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk
        change(T.ff_flow_core, pk, s, u)
        move(I.unsettled_flows, g0, m0, h0, o0)
      end
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_details = a[13]
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'replayed', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    wake('deadline', '', '', n.deadline_at_ms)
    return { 1 }
  end,
}
