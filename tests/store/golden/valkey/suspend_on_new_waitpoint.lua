-- suspend_on_new_waitpoint(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, blocking_reason, blocking_detail, suspension_id, primary_waitpoint_id, now, suspension_text, timeout_at_ms, reason_code, condition, satisfied_set, timeout_behavior, requested_by, resume_policy, continuation_metadata_pointer, satisfier_signal_ids, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'attempt_timeout_at_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'attempt_state', 'interrupt_cause', 'lease_epoch', 'attempt_timeout_remaining_ms', 'current_suspension_id', 'current_waitpoint_id' }
local constant_1 = { 'attempt_state', 'suspended_at_ms', 'suspension_id', 'lease_expires_at_ms', 'lease_epoch', 'attempt_timeout_remaining_ms' }
local constant_2 = { 'suspended_at_ms', 'suspension_id', 'timeout_at_ms', 'reason_code', 'condition', 'satisfied_set', 'timeout_behavior', 'attempt_index', 'requested_by', 'resume_policy', 'continuation_metadata_pointer', 'primary_waitpoint_id', 'satisfier_signal_ids', 'last_signal_at_ms', 'closer_signal_id', 'closed_at_ms', 'close_reason', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(time, r.attempt_timeout_at_ms))) then refuse(0) end
      b = { attempt_timeout_at_ms = r.attempt_timeout_at_ms }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c14 = required(a[8], 'blocking_reason')
      local c15 = required(a[9], 'blocking_detail')
      local c20 = required(plus(r.lease_epoch, '1'), 'lease_epoch')
      local c21 = until_(b.attempt_timeout_at_ms)
      local c22 = a[10]
      local c23 = a[11]
      local g2, m2
      if r.quota_policy_id ~= nil then g2, m2 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g3, m3
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g3, m3 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g4, m4 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local g5, m5
      if r.attempt_timeout_at_ms ~= nil then g5, m5 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
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
      if r.lifecycle_phase ~= 'suspended' then k = k + 2 s[k - 1], s[k] = 'ktU', 'suspended' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'not_applicable' then k = k + 2 s[k - 1], s[k] = 'sBF', 'not_applicable' end
      if r.blocking_reason ~= c14 then if c14 == 'none' then j = j + 1 u[j] = 'nDk' else k = k + 2 s[k - 1], s[k] = 'nDk', c14 end end
      if r.blocking_detail ~= c15 then if c15 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c15 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'suspended' then k = k + 2 s[k - 1], s[k] = 'dV2', 'suspended' end
      if r.attempt_state ~= 'attempt_interrupted' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_interrupted' end
      if r.interrupt_cause ~= 'suspended' then k = k + 2 s[k - 1], s[k] = 'zbc', 'suspended' end
      if r.lease_epoch ~= c20 then if c20 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c20 end end
      if r.attempt_timeout_remaining_ms ~= c21 then if c21 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c21 end end
      if r.current_suspension_id ~= c22 then if c22 == nil then j = j + 1 u[j] = 'oYn' else k = k + 2 s[k - 1], s[k] = 'oYn', c22 end end
      if r.current_waitpoint_id ~= c23 then if c23 == nil then j = j + 1 u[j] = 'TKf' else k = k + 2 s[k - 1], s[k] = 'TKf', c23 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_lease_id = r.current_lease_id, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline, lease_expired_at = r.lease_expired_at, attempt_timeout_at_ms = r.attempt_timeout_at_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, attempt_state = r.attempt_state, interrupt_cause = r.interrupt_cause, lease_epoch = r.lease_epoch, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms, current_suspension_id = r.current_suspension_id, current_waitpoint_id = r.current_waitpoint_id })
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
      r.lifecycle_phase = 'suspended'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'not_applicable'
      r.blocking_reason = c14
      r.blocking_detail = c15
      r.terminal_outcome = 'none'
      r.public_state = 'suspended'
      r.attempt_state = 'attempt_interrupted'
      r.interrupt_cause = 'suspended'
      r.lease_epoch = c20
      r.attempt_timeout_remaining_ms = c21
      r.current_suspension_id = c22
      r.current_waitpoint_id = c23
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h1, o1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      add(I.unowned, h0, o0)
      add(I.suspended_executions, h1, o1)
      if m2 then remove(I.held, g2, m2) end
      if m3 then remove(I.blocked_on, g3, m3) end
      remove(I.leased, g4, m4)
      if m5 then remove(I.attempt_timeout, g5, m5) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c1 = a[12]
        local c2 = a[13]
        local c4 = required(n.lease_epoch, 'lease_epoch')
        local c5 = n.attempt_timeout_remaining_ms
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'suspended' then k = k + 2 s[k - 1], s[k] = '0m5', 'suspended' end
        if r.suspended_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'Zcl' else k = k + 2 s[k - 1], s[k] = 'Zcl', c1 end end
        if r.suspension_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 'OA3' else k = k + 2 s[k - 1], s[k] = 'OA3', c2 end end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        if r.lease_epoch ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c4 end end
        if r.attempt_timeout_remaining_ms ~= c5 then if c5 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c5 end end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, suspended_at_ms = r.suspended_at_ms, suspension_id = r.suspension_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_epoch = r.lease_epoch, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
        r.attempt_state = 'suspended'
        r.suspended_at_ms = c1
        r.suspension_id = c2
        r.lease_expires_at_ms = nil
        r.lease_epoch = c4
        r.attempt_timeout_remaining_ms = c5
        change(T.ff_attempt, pk, s, u)
      end
    end
    do
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_suspension_id = required(a[10], 'suspension_id')
      local v_suspended_at_ms = required(a[12], 'suspended_at_ms')
      local v_timeout_at_ms = a[14]
      local v_reason_code = required(a[15], 'reason_code')
      local v_condition = required(a[16], 'condition')
      local v_satisfied_set = required(a[17], 'satisfied_set')
      local v_timeout_behavior = a[18]
      local v_attempt_index = required(a[5], 'attempt_index')
      local v_requested_by = required(a[19], 'requested_by')
      local v_resume_policy = required(a[20], 'resume_policy')
      local v_continuation_metadata_pointer = a[21]
      local v_primary_waitpoint_id = a[11]
      local v_satisfier_signal_ids = required(a[22], 'satisfier_signal_ids')
      local pk = int(v_partition_key) .. uuid(v_execution_id)
      local r = fetch(T.ff_suspension_current, pk)
      if r then
        local c0 = required(a[12], 'suspended_at_ms')
        local c1 = required(a[10], 'suspension_id')
        local c2 = a[14]
        local c3 = required(a[15], 'reason_code')
        local c4 = required(a[16], 'condition')
        local c5 = required(a[17], 'satisfied_set')
        local c6 = a[18]
        local c7 = required(a[5], 'attempt_index')
        local c8 = required(a[19], 'requested_by')
        local c9 = required(a[20], 'resume_policy')
        local c10 = a[21]
        local c11 = a[11]
        local c12 = required(a[22], 'satisfier_signal_ids')
        local c17 = required(plus(r.version, '1'), 'version')
        local g0, m0
        if r.closed_at_ms == nil then g0, m0 = int(r.partition_key), int(r.suspended_at_ms) .. uuid(r.execution_id) .. pk end
        local g1, m1
        if r.closed_at_ms == nil and r.timeout_at_ms ~= nil then g1, m1 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.suspended_at_ms ~= c0 then k = k + 2 s[k - 1], s[k] = 'Zcl', c0 end
        if r.suspension_id ~= c1 then k = k + 2 s[k - 1], s[k] = 'OA3', c1 end
        if r.timeout_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = '4Dk' else k = k + 2 s[k - 1], s[k] = '4Dk', c2 end end
        if r.reason_code ~= c3 then k = k + 2 s[k - 1], s[k] = 'cXQ', c3 end
        if r.condition ~= c4 then k = k + 2 s[k - 1], s[k] = 'jSJ', c4 end
        if r.satisfied_set ~= c5 then if c5 == '[]' then j = j + 1 u[j] = 'Gpo' else k = k + 2 s[k - 1], s[k] = 'Gpo', c5 end end
        if r.timeout_behavior ~= c6 then if c6 == nil then j = j + 1 u[j] = 'AUC' else k = k + 2 s[k - 1], s[k] = 'AUC', c6 end end
        if r.attempt_index ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'oxR' else k = k + 2 s[k - 1], s[k] = 'oxR', c7 end end
        if r.requested_by ~= c8 then if c8 == 'worker' then j = j + 1 u[j] = 'TLx' else k = k + 2 s[k - 1], s[k] = 'TLx', c8 end end
        if r.resume_policy ~= c9 then if c9 == '{}' then j = j + 1 u[j] = '6Dd' else k = k + 2 s[k - 1], s[k] = '6Dd', c9 end end
        if r.continuation_metadata_pointer ~= c10 then if c10 == nil then j = j + 1 u[j] = '4sk' else k = k + 2 s[k - 1], s[k] = '4sk', c10 end end
        if r.primary_waitpoint_id ~= c11 then if c11 == nil then j = j + 1 u[j] = 'oXg' else k = k + 2 s[k - 1], s[k] = 'oXg', c11 end end
        if r.satisfier_signal_ids ~= c12 then if c12 == '[]' then j = j + 1 u[j] = 'WMG' else k = k + 2 s[k - 1], s[k] = 'WMG', c12 end end
        if r.last_signal_at_ms ~= nil then j = j + 1 u[j] = '2Zl' end
        if r.closer_signal_id ~= nil then j = j + 1 u[j] = 'Iu8' end
        if r.closed_at_ms ~= nil then j = j + 1 u[j] = 't4h' end
        if r.close_reason ~= nil then j = j + 1 u[j] = 'tLj' end
        if r.version ~= c17 then if c17 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c17 end end
        note_change(T.ff_suspension_current, pk, r, constant_2, { suspended_at_ms = r.suspended_at_ms, suspension_id = r.suspension_id, timeout_at_ms = r.timeout_at_ms, reason_code = r.reason_code, condition = r.condition, satisfied_set = r.satisfied_set, timeout_behavior = r.timeout_behavior, attempt_index = r.attempt_index, requested_by = r.requested_by, resume_policy = r.resume_policy, continuation_metadata_pointer = r.continuation_metadata_pointer, primary_waitpoint_id = r.primary_waitpoint_id, satisfier_signal_ids = r.satisfier_signal_ids, last_signal_at_ms = r.last_signal_at_ms, closer_signal_id = r.closer_signal_id, closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
        r.suspended_at_ms = c0
        r.suspension_id = c1
        r.timeout_at_ms = c2
        r.reason_code = c3
        r.condition = c4
        r.satisfied_set = c5
        r.timeout_behavior = c6
        r.attempt_index = c7
        r.requested_by = c8
        r.resume_policy = c9
        r.continuation_metadata_pointer = c10
        r.primary_waitpoint_id = c11
        r.satisfier_signal_ids = c12
        r.last_signal_at_ms = nil
        r.closer_signal_id = nil
        r.closed_at_ms = nil
        r.close_reason = nil
        r.version = c17
        local h0, o0 = int(r.partition_key), int(r.suspended_at_ms) .. uuid(r.execution_id) .. pk
        local h1, o1
        if r.timeout_at_ms ~= nil then h1, o1 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        change(T.ff_suspension_current, pk, s, u)
        move(I.suspended, g0, m0, h0, o0)
        move(I.suspension_timeout, g1, m1, h1, o1)
      else
        if exists(T.ff_suspension_current, pk) then refuse(2) end
        local h0, o0 = int(v_partition_key), int(v_suspended_at_ms) .. uuid(v_execution_id) .. pk
        local h1, o1
        if v_timeout_at_ms ~= nil then h1, o1 = '', int(v_timeout_at_ms) .. uuid(v_execution_id) .. pk end
        local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'OA3', v_suspension_id, 'Zcl', v_suspended_at_ms, 'cXQ', v_reason_code, 'jSJ', v_condition }, 12
        if v_timeout_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = '4Dk', v_timeout_at_ms end
        if v_satisfied_set ~= '[]' then k = k + 2 s[k - 1], s[k] = 'Gpo', v_satisfied_set end
        if v_timeout_behavior ~= nil then k = k + 2 s[k - 1], s[k] = 'AUC', v_timeout_behavior end
        if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
        if v_requested_by ~= 'worker' then k = k + 2 s[k - 1], s[k] = 'TLx', v_requested_by end
        if v_resume_policy ~= '{}' then k = k + 2 s[k - 1], s[k] = '6Dd', v_resume_policy end
        if v_continuation_metadata_pointer ~= nil then k = k + 2 s[k - 1], s[k] = '4sk', v_continuation_metadata_pointer end
        if v_primary_waitpoint_id ~= nil then k = k + 2 s[k - 1], s[k] = 'oXg', v_primary_waitpoint_id end
        if v_satisfier_signal_ids ~= '[]' then k = k + 2 s[k - 1], s[k] = 'WMG', v_satisfier_signal_ids end
        make(T.ff_suspension_current, pk, s)
        add(I.suspended, h0, o0)
        if o1 then add(I.suspension_timeout, h1, o1) end
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
      local v_lease_id = a[6]
      local v_lease_epoch = n.lease_epoch
      local v_worker_instance_id = a[7]
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'revoked', 'UK4', 'suspended', 'fwj', v_occurred_at_ms }, 10
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
      local v_partition_key = required(a[2], 'partition_key')
      local v_waitpoint_id = required(a[23], 'waitpoint_id')
      local v_execution_id = required(a[3], 'execution_id')
      local v_token_kid = required(a[24], 'token_kid')
      local v_token_digest = required(a[25], 'token_digest')
      local v_created_at_ms = required(a[26], 'created_at_ms')
      local v_expires_at_ms = a[27]
      local v_waitpoint_key = required(a[28], 'waitpoint_key')
      local v_required_signal_names = required(a[30], 'required_signal_names')
      local v_activated_at_ms = a[12]
      local v_attempt_index = required(a[5], 'attempt_index')
      local v_suspension_id = a[10]
      local v_payload_schema = a[29]
      local pk = int(v_partition_key) .. uuid(v_waitpoint_id)
      if exists(T.ff_waitpoint_pending, pk) then refuse(5) end
      local h0, o0 = int(v_partition_key) .. uuid(v_execution_id), uuid(v_waitpoint_id) .. pk
      local h1, o1 = '', int(v_created_at_ms) .. uuid(v_waitpoint_id) .. pk
      local s, k = { 'WYb', v_partition_key, 'mbj', v_waitpoint_id, '6Pr', v_execution_id, 'YeM', v_token_kid, 'itU', v_token_digest, 'yVc', v_created_at_ms, 'X27', 'active' }, 14
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      if v_waitpoint_key ~= '' then k = k + 2 s[k - 1], s[k] = 'MCh', v_waitpoint_key end
      if v_required_signal_names ~= '[]' then k = k + 2 s[k - 1], s[k] = 'iM8', v_required_signal_names end
      if v_activated_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'qIj', v_activated_at_ms end
      if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
      if v_suspension_id ~= nil then k = k + 2 s[k - 1], s[k] = 'OA3', v_suspension_id end
      if v_payload_schema ~= nil then k = k + 2 s[k - 1], s[k] = 'l1t', v_payload_schema end
      make(T.ff_waitpoint_pending, pk, s)
      add(I.waitpoints_of, h0, o0)
      add(I.open_waitpoints, h1, o1)
    end
    wake('ff_lease_event', '', '', '')
    wake('suspension_timeout', '', '', a[14])
    return { 1 }
  end,
}
