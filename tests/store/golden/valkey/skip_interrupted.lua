-- skip_interrupted(partition_key, execution_id, version)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'attempt_timeout_at_ms', 'reserved_for', 'reserved_until_ms', 'retain_until_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'delay_until_ms', 'terminal_at_ms', 'closing_epoch', 'closing_attempt_index', 'attempt_state', 'current_suspension_id', 'current_waitpoint_id' }
local constant_1 = { 'attempt_state', 'outcome', 'terminal_at_ms', 'lease_expires_at_ms', 'failure_reason' }
local constant_2 = { 'closed_at_ms', 'close_reason', 'version' }
local constant_3 = { 'state', 'closed_at_ms', 'close_reason', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = { retention_ttl_ms = r.retention_ttl_ms, lease_epoch = r.lease_epoch, attempt_index = r.attempt_index }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c13 = plus(time, b.retention_ttl_ms)
      local c22 = time
      local c23 = b.lease_epoch
      local c24 = b.attempt_index
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
      if r.current_lease_id ~= nil then j = j + 1 u[j] = 'UlQ' end
      if r.current_worker_id ~= nil then j = j + 1 u[j] = 'wDg' end
      if r.current_worker_instance_id ~= nil then j = j + 1 u[j] = '1Qq' end
      if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
      if r.lease_last_renewed_at ~= nil then j = j + 1 u[j] = '5lZ' end
      if r.lease_renewal_deadline ~= nil then j = j + 1 u[j] = '6dF' end
      if r.lease_expired_at ~= nil then j = j + 1 u[j] = 'Dom' end
      if r.attempt_timeout_at_ms ~= nil then j = j + 1 u[j] = '7gd' end
      if r.reserved_for ~= nil then j = j + 1 u[j] = 'una' end
      if r.reserved_until_ms ~= nil then j = j + 1 u[j] = '2Tv' end
      if r.retain_until_ms ~= c13 then if c13 == nil then j = j + 1 u[j] = 'Fjr' else k = k + 2 s[k - 1], s[k] = 'Fjr', c13 end end
      if r.lifecycle_phase ~= 'terminal' then k = k + 2 s[k - 1], s[k] = 'ktU', 'terminal' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'not_applicable' then k = k + 2 s[k - 1], s[k] = 'sBF', 'not_applicable' end
      if r.blocking_reason ~= 'none' then j = j + 1 u[j] = 'nDk' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      if r.terminal_outcome ~= 'skipped' then k = k + 2 s[k - 1], s[k] = 'CrN', 'skipped' end
      if r.public_state ~= 'skipped' then k = k + 2 s[k - 1], s[k] = 'dV2', 'skipped' end
      if r.delay_until_ms ~= nil then j = j + 1 u[j] = 'Nsm' end
      if r.terminal_at_ms ~= c22 then if c22 == nil then j = j + 1 u[j] = 'Xv6' else k = k + 2 s[k - 1], s[k] = 'Xv6', c22 end end
      if r.closing_epoch ~= c23 then if c23 == nil then j = j + 1 u[j] = 'NdX' else k = k + 2 s[k - 1], s[k] = 'NdX', c23 end end
      if r.closing_attempt_index ~= c24 then if c24 == nil then j = j + 1 u[j] = 'sl4' else k = k + 2 s[k - 1], s[k] = 'sl4', c24 end end
      if r.attempt_state ~= 'attempt_terminal' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_terminal' end
      if r.current_suspension_id ~= nil then j = j + 1 u[j] = 'oYn' end
      if r.current_waitpoint_id ~= nil then j = j + 1 u[j] = 'TKf' end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_lease_id = r.current_lease_id, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline, lease_expired_at = r.lease_expired_at, attempt_timeout_at_ms = r.attempt_timeout_at_ms, reserved_for = r.reserved_for, reserved_until_ms = r.reserved_until_ms, retain_until_ms = r.retain_until_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, delay_until_ms = r.delay_until_ms, terminal_at_ms = r.terminal_at_ms, closing_epoch = r.closing_epoch, closing_attempt_index = r.closing_attempt_index, attempt_state = r.attempt_state, current_suspension_id = r.current_suspension_id, current_waitpoint_id = r.current_waitpoint_id })
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
      r.reserved_for = nil
      r.reserved_until_ms = nil
      r.retain_until_ms = c13
      r.lifecycle_phase = 'terminal'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'not_applicable'
      r.blocking_reason = 'none'
      r.blocking_detail = ''
      r.terminal_outcome = 'skipped'
      r.public_state = 'skipped'
      r.delay_until_ms = nil
      r.terminal_at_ms = c22
      r.closing_epoch = c23
      r.closing_attempt_index = c24
      r.attempt_state = 'attempt_terminal'
      r.current_suspension_id = nil
      r.current_waitpoint_id = nil
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h14, o14
      if r.retain_until_ms == nil then h14, o14 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local h16, o16
      if r.retain_until_ms ~= nil then h16, o16 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      if m1 then remove(I.suspended_executions, g1, m1) end
      if m2 then remove(I.ready, g2, m2) end
      if m3 then remove(I.held, g3, m3) end
      if m4 then remove(I.reserved, g4, m4) end
      if m5 then remove(I.blocked_on, g5, m5) end
      if m6 then remove(I.delayed, g6, m6) end
      if m7 then remove(I.leased, g7, m7) end
      if m8 then remove(I.lost, g8, m8) end
      if m9 then remove(I.attempt_timeout, g9, m9) end
      if m10 then remove(I.deadline, g10, m10) end
      if m11 then remove(I.routed, g11, m11) end
      if m12 then remove(I.limited, g12, m12) end
      if m13 then remove(I.blocked, g13, m13) end
      move(I.ended, g14, m14, h14, o14)
      if m15 then remove(I.failed, g15, m15) end
      move(I.retained, g16, m16, h16, o16)
      if m17 then remove(I.dependent, g17, m17) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c2 = time
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'ended_cancelled' then k = k + 2 s[k - 1], s[k] = '0m5', 'ended_cancelled' end
        if r.outcome ~= 'skipped' then k = k + 2 s[k - 1], s[k] = 'EtN', 'skipped' end
        if r.terminal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'Xv6' else k = k + 2 s[k - 1], s[k] = 'Xv6', c2 end end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        if r.failure_reason ~= 'dependency_impossible' then k = k + 2 s[k - 1], s[k] = 'WVp', 'dependency_impossible' end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, outcome = r.outcome, terminal_at_ms = r.terminal_at_ms, lease_expires_at_ms = r.lease_expires_at_ms, failure_reason = r.failure_reason })
        r.attempt_state = 'ended_cancelled'
        r.outcome = 'skipped'
        r.terminal_at_ms = c2
        r.lease_expires_at_ms = nil
        r.failure_reason = 'dependency_impossible'
        change(T.ff_attempt, pk, s, u)
      end
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_suspension_current, pk)
      if r and r.closed_at_ms == nil then
        local c0 = time
        local c2 = required(plus(r.version, '1'), 'version')
        local g0, m0 = int(r.partition_key), int(r.suspended_at_ms) .. uuid(r.execution_id) .. pk
        local g1, m1
        if r.timeout_at_ms ~= nil then g1, m1 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.closed_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c0 end end
        if r.close_reason ~= 'dependency_impossible' then k = k + 2 s[k - 1], s[k] = 'tLj', 'dependency_impossible' end
        if r.version ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c2 end end
        note_change(T.ff_suspension_current, pk, r, constant_2, { closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
        r.closed_at_ms = c0
        r.close_reason = 'dependency_impossible'
        r.version = c2
        local h0, o0
        if r.closed_at_ms == nil then h0, o0 = int(r.partition_key), int(r.suspended_at_ms) .. uuid(r.execution_id) .. pk end
        local h1, o1
        if r.closed_at_ms == nil and r.timeout_at_ms ~= nil then h1, o1 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        change(T.ff_suspension_current, pk, s, u)
        move(I.suspended, g0, m0, h0, o0)
        move(I.suspension_timeout, g1, m1, h1, o1)
      end
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_row(I.waitpoints_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and (r.state == 'pending' or r.state == 'active') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local c1 = time
        local c3 = required(plus(r.version, '1'), 'version')
        local g0, m0
        if r.state == 'pending' and r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. pk end
        local g1, m1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.state ~= 'closed' then k = k + 2 s[k - 1], s[k] = 'X27', 'closed' end
        if r.closed_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c1 end end
        if r.close_reason ~= 'dependency_impossible' then k = k + 2 s[k - 1], s[k] = 'tLj', 'dependency_impossible' end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        note_change(T.ff_waitpoint_pending, pk, r, constant_3, { state = r.state, closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
        r.state = 'closed'
        r.closed_at_ms = c1
        r.close_reason = 'dependency_impossible'
        r.version = c3
        change(T.ff_waitpoint_pending, pk, s, u)
        if m0 then remove(I.waitpoint_expiry, g0, m0) end
        remove(I.open_waitpoints, g1, m1)
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
      local v_event_id = next_number(T.ff_completion_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_flow_id = n.flow_id
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_committed_at_ms = required(time, 'committed_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0
      if v_flow_id ~= nil then h0, o0 = '', int(v_committed_at_ms) .. int(v_event_id) .. pk end
      local h1, o1 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'EtN', 'skipped', 'fwj', v_occurred_at_ms }, 8
      if v_flow_id ~= nil then k = k + 2 s[k - 1], s[k] = 'vkT', v_flow_id end
      if v_committed_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = '49B', v_committed_at_ms end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_completion_event, pk, s)
      if o0 then add(I.undispatched, h0, o0) end
      add(I.completion_events_of, h1, o1)
    end
    wake('ff_completion_event', '', '', '')
    return { 1 }
  end,
}
