-- reclaim_same_attempt(partition_key, execution_id, version, lease_id, attempt_id, worker_id, worker_instance_id, lease_ttl_ms, renew_within_ms, timeout_ms, lease_reclaim_count, expired_epoch, deadline_at_ms, deadline_origin, attempt_policy)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'reserved_for', 'reserved_until_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'attempt_state', 'lease_epoch', 'current_lease_id', 'current_attempt_id', 'attempt_index', 'total_attempt_count', 'current_worker_id', 'current_worker_instance_id', 'started_at_ms', 'lease_acquired_at', 'lease_last_renewed_at', 'lease_expires_at_ms', 'lease_renewal_deadline', 'attempt_timeout_at_ms', 'lease_expired_at', 'attempt_timeout_remaining_ms', 'interrupt_cause', 'delay_until_ms', 'pending_retry_reason', 'pending_replay_reason', 'pending_replay_requested_by', 'pending_previous_attempt_index', 'pending_attempt_policy', 'blocked_on', 'lease_reclaim_count', 'expired_epoch', 'deadline_at_ms', 'deadline_origin' }
local constant_1 = { 'attempt_state', 'worker_id', 'worker_instance_id', 'lease_id', 'lease_epoch', 'lease_expires_at_ms', 'attempt_timeout_at_ms', 'attempt_id', 'started_at_ms', 'resumed_at_ms', 'suspended_at_ms', 'suspension_id', 'outcome', 'terminal_at_ms', 'attempt_timeout_remaining_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = whole(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and ((r.ownership_state ~= nil and r.ownership_state ~= 'leased') or up_to(r.lease_expires_at_ms, time))) then refuse(0) end
      b = { current_attempt_id = r.current_attempt_id, total_attempt_count = r.total_attempt_count, attempt_index = r.attempt_index, attempt_state = r.attempt_state, pending_retry_reason = r.pending_retry_reason, pending_replay_reason = r.pending_replay_reason, pending_replay_requested_by = r.pending_replay_requested_by, pending_previous_attempt_index = r.pending_previous_attempt_index }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c13 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c14 = a[5]
      local c15 = a[6]
      local c16 = required(either(b.current_attempt_id == nil, b.total_attempt_count, b.attempt_index), 'attempt_index')
      local c17 = required(either(b.current_attempt_id == nil, plus(r.total_attempt_count, '1'), plus(r.total_attempt_count, '0')), 'total_attempt_count')
      local c18 = a[7]
      local c19 = a[8]
      local c20 = (r.started_at_ms or time)
      local c21 = time
      local c22 = time
      local c23 = plus(time, a[9])
      local c24 = plus(time, a[10])
      local c25 = plus(time, a[11])
      local c36 = required(a[12], 'lease_reclaim_count')
      local c37 = a[13]
      local c38 = a[14]
      local c39 = a[15]
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
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.reserved_for ~= nil then j = j + 1 u[j] = 'una' end
      if r.reserved_until_ms ~= nil then j = j + 1 u[j] = '2Tv' end
      if r.lifecycle_phase ~= 'active' then k = k + 2 s[k - 1], s[k] = 'ktU', 'active' end
      if r.ownership_state ~= 'leased' then k = k + 2 s[k - 1], s[k] = 'mvo', 'leased' end
      if r.eligibility_state ~= 'not_applicable' then k = k + 2 s[k - 1], s[k] = 'sBF', 'not_applicable' end
      if r.blocking_reason ~= 'none' then j = j + 1 u[j] = 'nDk' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'active' then k = k + 2 s[k - 1], s[k] = 'dV2', 'active' end
      if r.attempt_state ~= 'running_attempt' then k = k + 2 s[k - 1], s[k] = '0m5', 'running_attempt' end
      if r.lease_epoch ~= c13 then if c13 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c13 end end
      if r.current_lease_id ~= c14 then if c14 == nil then j = j + 1 u[j] = 'UlQ' else k = k + 2 s[k - 1], s[k] = 'UlQ', c14 end end
      if r.current_attempt_id ~= c15 then if c15 == nil then j = j + 1 u[j] = 'vdb' else k = k + 2 s[k - 1], s[k] = 'vdb', c15 end end
      if r.attempt_index ~= c16 then if c16 == '0' then j = j + 1 u[j] = 'oxR' else k = k + 2 s[k - 1], s[k] = 'oxR', c16 end end
      if r.total_attempt_count ~= c17 then if c17 == '0' then j = j + 1 u[j] = 'Apz' else k = k + 2 s[k - 1], s[k] = 'Apz', c17 end end
      if r.current_worker_id ~= c18 then if c18 == nil then j = j + 1 u[j] = 'wDg' else k = k + 2 s[k - 1], s[k] = 'wDg', c18 end end
      if r.current_worker_instance_id ~= c19 then if c19 == nil then j = j + 1 u[j] = '1Qq' else k = k + 2 s[k - 1], s[k] = '1Qq', c19 end end
      if r.started_at_ms ~= c20 then if c20 == nil then j = j + 1 u[j] = 'xXw' else k = k + 2 s[k - 1], s[k] = 'xXw', c20 end end
      if r.lease_acquired_at ~= c21 then if c21 == nil then j = j + 1 u[j] = 'w09' else k = k + 2 s[k - 1], s[k] = 'w09', c21 end end
      if r.lease_last_renewed_at ~= c22 then if c22 == nil then j = j + 1 u[j] = '5lZ' else k = k + 2 s[k - 1], s[k] = '5lZ', c22 end end
      if r.lease_expires_at_ms ~= c23 then if c23 == nil then j = j + 1 u[j] = 'nWb' else k = k + 2 s[k - 1], s[k] = 'nWb', c23 end end
      if r.lease_renewal_deadline ~= c24 then if c24 == nil then j = j + 1 u[j] = '6dF' else k = k + 2 s[k - 1], s[k] = '6dF', c24 end end
      if r.attempt_timeout_at_ms ~= c25 then if c25 == nil then j = j + 1 u[j] = '7gd' else k = k + 2 s[k - 1], s[k] = '7gd', c25 end end
      if r.lease_expired_at ~= nil then j = j + 1 u[j] = 'Dom' end
      if r.attempt_timeout_remaining_ms ~= nil then j = j + 1 u[j] = 'mmV' end
      if r.interrupt_cause ~= nil then j = j + 1 u[j] = 'zbc' end
      if r.delay_until_ms ~= nil then j = j + 1 u[j] = 'Nsm' end
      if r.pending_retry_reason ~= nil then j = j + 1 u[j] = 'fwR' end
      if r.pending_replay_reason ~= nil then j = j + 1 u[j] = 'em6' end
      if r.pending_replay_requested_by ~= nil then j = j + 1 u[j] = 'JlX' end
      if r.pending_previous_attempt_index ~= nil then j = j + 1 u[j] = 'rK7' end
      if r.pending_attempt_policy ~= nil then j = j + 1 u[j] = 'bLi' end
      if r.blocked_on ~= nil then j = j + 1 u[j] = 'o9y' end
      if r.lease_reclaim_count ~= c36 then if c36 == '0' then j = j + 1 u[j] = 'jTn' else k = k + 2 s[k - 1], s[k] = 'jTn', c36 end end
      if r.expired_epoch ~= c37 then if c37 == nil then j = j + 1 u[j] = 'QNh' else k = k + 2 s[k - 1], s[k] = 'QNh', c37 end end
      if r.deadline_at_ms ~= c38 then if c38 == nil then j = j + 1 u[j] = 'eUt' else k = k + 2 s[k - 1], s[k] = 'eUt', c38 end end
      if r.deadline_origin ~= c39 then if c39 == nil then j = j + 1 u[j] = 'qPt' else k = k + 2 s[k - 1], s[k] = 'qPt', c39 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, reserved_for = r.reserved_for, reserved_until_ms = r.reserved_until_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, attempt_state = r.attempt_state, lease_epoch = r.lease_epoch, current_lease_id = r.current_lease_id, current_attempt_id = r.current_attempt_id, attempt_index = r.attempt_index, total_attempt_count = r.total_attempt_count, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, started_at_ms = r.started_at_ms, lease_acquired_at = r.lease_acquired_at, lease_last_renewed_at = r.lease_last_renewed_at, lease_expires_at_ms = r.lease_expires_at_ms, lease_renewal_deadline = r.lease_renewal_deadline, attempt_timeout_at_ms = r.attempt_timeout_at_ms, lease_expired_at = r.lease_expired_at, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms, interrupt_cause = r.interrupt_cause, delay_until_ms = r.delay_until_ms, pending_retry_reason = r.pending_retry_reason, pending_replay_reason = r.pending_replay_reason, pending_replay_requested_by = r.pending_replay_requested_by, pending_previous_attempt_index = r.pending_previous_attempt_index, pending_attempt_policy = r.pending_attempt_policy, blocked_on = r.blocked_on, lease_reclaim_count = r.lease_reclaim_count, expired_epoch = r.expired_epoch, deadline_at_ms = r.deadline_at_ms, deadline_origin = r.deadline_origin })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.reserved_for = nil
      r.reserved_until_ms = nil
      r.lifecycle_phase = 'active'
      r.ownership_state = 'leased'
      r.eligibility_state = 'not_applicable'
      r.blocking_reason = 'none'
      r.blocking_detail = ''
      r.terminal_outcome = 'none'
      r.public_state = 'active'
      r.attempt_state = 'running_attempt'
      r.lease_epoch = c13
      r.current_lease_id = c14
      r.current_attempt_id = c15
      r.attempt_index = c16
      r.total_attempt_count = c17
      r.current_worker_id = c18
      r.current_worker_instance_id = c19
      r.started_at_ms = c20
      r.lease_acquired_at = c21
      r.lease_last_renewed_at = c22
      r.lease_expires_at_ms = c23
      r.lease_renewal_deadline = c24
      r.attempt_timeout_at_ms = c25
      r.lease_expired_at = nil
      r.attempt_timeout_remaining_ms = nil
      r.interrupt_cause = nil
      r.delay_until_ms = nil
      r.pending_retry_reason = nil
      r.pending_replay_reason = nil
      r.pending_replay_requested_by = nil
      r.pending_previous_attempt_index = nil
      r.pending_attempt_policy = nil
      r.blocked_on = nil
      r.lease_reclaim_count = c36
      r.expired_epoch = c37
      r.deadline_at_ms = c38
      r.deadline_origin = c39
      local h3, o3
      if r.quota_policy_id ~= nil then h3, o3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local h7, o7 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local h9, o9
      if r.attempt_timeout_at_ms ~= nil then h9, o9 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local h10, o10
      if r.deadline_at_ms ~= nil then h10, o10 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      if m0 then remove(I.unowned, g0, m0) end
      if m1 then remove(I.suspended_executions, g1, m1) end
      if m2 then remove(I.ready, g2, m2) end
      move(I.held, g3, m3, h3, o3)
      if m4 then remove(I.reserved, g4, m4) end
      if m5 then remove(I.blocked_on, g5, m5) end
      if m6 then remove(I.delayed, g6, m6) end
      move(I.leased, g7, m7, h7, o7)
      if m8 then remove(I.lost, g8, m8) end
      move(I.attempt_timeout, g9, m9, h9, o9)
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
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_attempt_index = required(n.attempt_index, 'attempt_index')
      local v_attempt_id = n.current_attempt_id
      local v_attempt_type = required(either(b.attempt_state == 'pending_retry_attempt', 'retry', either(b.attempt_state == 'pending_replay_attempt', 'replay', 'initial')), 'attempt_type')
      local v_worker_id = a[7]
      local v_worker_instance_id = a[8]
      local v_lease_id = n.current_lease_id
      local v_lease_epoch = required(n.lease_epoch, 'lease_epoch')
      local v_lease_expires_at_ms = n.lease_expires_at_ms
      local v_created_at_ms = required(time, 'created_at_ms')
      local v_started_at_ms = time
      local v_retry_reason = b.pending_retry_reason
      local v_replay_reason = b.pending_replay_reason
      local v_replay_requested_by = b.pending_replay_requested_by
      local v_previous_attempt_index = b.pending_previous_attempt_index
      local v_attempt_timeout_at_ms = n.attempt_timeout_at_ms
      local v_policy = a[16]
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. int(v_attempt_index)
      local r = fetch(T.ff_attempt, pk)
      if r then
        local c1 = a[7]
        local c2 = a[8]
        local c3 = n.current_lease_id
        local c4 = required(n.lease_epoch, 'lease_epoch')
        local c5 = n.lease_expires_at_ms
        local c6 = n.attempt_timeout_at_ms
        local c7 = n.current_attempt_id
        local c8 = (r.started_at_ms or time)
        local c9 = time
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'started' then k = k + 2 s[k - 1], s[k] = '0m5', 'started' end
        if r.worker_id ~= c1 then if c1 == nil then j = j + 1 u[j] = 'wDj' else k = k + 2 s[k - 1], s[k] = 'wDj', c1 end end
        if r.worker_instance_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 'qqT' else k = k + 2 s[k - 1], s[k] = 'qqT', c2 end end
        if r.lease_id ~= c3 then if c3 == nil then j = j + 1 u[j] = 'wg5' else k = k + 2 s[k - 1], s[k] = 'wg5', c3 end end
        if r.lease_epoch ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c4 end end
        if r.lease_expires_at_ms ~= c5 then if c5 == nil then j = j + 1 u[j] = 'nWb' else k = k + 2 s[k - 1], s[k] = 'nWb', c5 end end
        if r.attempt_timeout_at_ms ~= c6 then if c6 == nil then j = j + 1 u[j] = '7gd' else k = k + 2 s[k - 1], s[k] = '7gd', c6 end end
        if r.attempt_id ~= c7 then if c7 == nil then j = j + 1 u[j] = 'BR4' else k = k + 2 s[k - 1], s[k] = 'BR4', c7 end end
        if r.started_at_ms ~= c8 then if c8 == nil then j = j + 1 u[j] = 'xXw' else k = k + 2 s[k - 1], s[k] = 'xXw', c8 end end
        if r.resumed_at_ms ~= c9 then if c9 == nil then j = j + 1 u[j] = 'apJ' else k = k + 2 s[k - 1], s[k] = 'apJ', c9 end end
        if r.suspended_at_ms ~= nil then j = j + 1 u[j] = 'Zcl' end
        if r.suspension_id ~= nil then j = j + 1 u[j] = 'OA3' end
        if r.outcome ~= nil then j = j + 1 u[j] = 'EtN' end
        if r.terminal_at_ms ~= nil then j = j + 1 u[j] = 'Xv6' end
        if r.attempt_timeout_remaining_ms ~= nil then j = j + 1 u[j] = 'mmV' end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, worker_id = r.worker_id, worker_instance_id = r.worker_instance_id, lease_id = r.lease_id, lease_epoch = r.lease_epoch, lease_expires_at_ms = r.lease_expires_at_ms, attempt_timeout_at_ms = r.attempt_timeout_at_ms, attempt_id = r.attempt_id, started_at_ms = r.started_at_ms, resumed_at_ms = r.resumed_at_ms, suspended_at_ms = r.suspended_at_ms, suspension_id = r.suspension_id, outcome = r.outcome, terminal_at_ms = r.terminal_at_ms, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
        r.attempt_state = 'started'
        r.worker_id = c1
        r.worker_instance_id = c2
        r.lease_id = c3
        r.lease_epoch = c4
        r.lease_expires_at_ms = c5
        r.attempt_timeout_at_ms = c6
        r.attempt_id = c7
        r.started_at_ms = c8
        r.resumed_at_ms = c9
        r.suspended_at_ms = nil
        r.suspension_id = nil
        r.outcome = nil
        r.terminal_at_ms = nil
        r.attempt_timeout_remaining_ms = nil
        change(T.ff_attempt, pk, s, u)
      else
        if exists(T.ff_attempt, pk) then refuse(1) end
        local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'oxR', v_attempt_index, '0m5', 'started' }, 8
        if v_attempt_id ~= nil then k = k + 2 s[k - 1], s[k] = 'BR4', v_attempt_id end
        if v_attempt_type ~= 'initial' then k = k + 2 s[k - 1], s[k] = 'dEH', v_attempt_type end
        if v_worker_id ~= nil then k = k + 2 s[k - 1], s[k] = 'wDj', v_worker_id end
        if v_worker_instance_id ~= nil then k = k + 2 s[k - 1], s[k] = 'qqT', v_worker_instance_id end
        if v_lease_id ~= nil then k = k + 2 s[k - 1], s[k] = 'wg5', v_lease_id end
        if v_lease_epoch ~= '0' then k = k + 2 s[k - 1], s[k] = 'BCm', v_lease_epoch end
        if v_lease_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'nWb', v_lease_expires_at_ms end
        if v_created_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = 'yVc', v_created_at_ms end
        if v_started_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'xXw', v_started_at_ms end
        if v_retry_reason ~= nil then k = k + 2 s[k - 1], s[k] = 'VWA', v_retry_reason end
        if v_replay_reason ~= nil then k = k + 2 s[k - 1], s[k] = 'zv8', v_replay_reason end
        if v_replay_requested_by ~= nil then k = k + 2 s[k - 1], s[k] = '5Dt', v_replay_requested_by end
        if v_previous_attempt_index ~= nil then k = k + 2 s[k - 1], s[k] = 'DFA', v_previous_attempt_index end
        if v_attempt_timeout_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = '7gd', v_attempt_timeout_at_ms end
        if v_policy ~= nil then k = k + 2 s[k - 1], s[k] = 'Yji', v_policy end
        make(T.ff_attempt, pk, s)
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
      local v_lease_id = n.current_lease_id
      local v_lease_epoch = n.lease_epoch
      local v_worker_instance_id = n.current_worker_instance_id
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'reclaimed', 'fwj', v_occurred_at_ms }, 8
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
    wake('attempt_timeout', '', '', n.attempt_timeout_at_ms)
    wake('deadline', '', '', n.deadline_at_ms)
    return { 1, n.partition_key or false, n.execution_id or false, n.attempt_index or false, n.current_attempt_id or false, n.current_lease_id or false, n.lease_epoch or false, n.lease_expires_at_ms or false, n.lane_id or false, n.retry_count or false, n.policy or false, n.execution_kind or false, n.payload or false, n.tags or false, b.attempt_state or false, n.attempt_timeout_ms or false, n.attempt_timeout_at_ms or false }
  end,
}
