-- quarantine_held(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, detail)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'attempt_timeout_at_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'attempt_state', 'interrupt_cause', 'attempt_timeout_remaining_ms' }
local constant_1 = { 'attempt_state', 'suspended_at_ms', 'lease_expires_at_ms', 'attempt_timeout_remaining_ms' }
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
      local c15 = required(a[8], 'blocking_detail')
      local c20 = until_(b.attempt_timeout_at_ms)
      local g1, m1
      if r.quota_policy_id ~= nil then g1, m1 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g2, m2
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g2, m2 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local g4, m4
      if r.attempt_timeout_at_ms ~= nil then g4, m4 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
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
      if r.eligibility_state ~= 'blocked_by_operator' then k = k + 2 s[k - 1], s[k] = 'sBF', 'blocked_by_operator' end
      if r.blocking_reason ~= 'paused_by_operator' then k = k + 2 s[k - 1], s[k] = 'nDk', 'paused_by_operator' end
      if r.blocking_detail ~= c15 then if c15 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c15 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'waiting' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting' end
      if r.attempt_state ~= 'attempt_interrupted' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_interrupted' end
      if r.interrupt_cause ~= 'quarantined' then k = k + 2 s[k - 1], s[k] = 'zbc', 'quarantined' end
      if r.attempt_timeout_remaining_ms ~= c20 then if c20 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c20 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_lease_id = r.current_lease_id, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline, lease_expired_at = r.lease_expired_at, attempt_timeout_at_ms = r.attempt_timeout_at_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, attempt_state = r.attempt_state, interrupt_cause = r.interrupt_cause, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
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
      r.eligibility_state = 'blocked_by_operator'
      r.blocking_reason = 'paused_by_operator'
      r.blocking_detail = c15
      r.terminal_outcome = 'none'
      r.public_state = 'waiting'
      r.attempt_state = 'attempt_interrupted'
      r.interrupt_cause = 'quarantined'
      r.attempt_timeout_remaining_ms = c20
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h5, o5 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      add(I.unowned, h0, o0)
      if m1 then remove(I.held, g1, m1) end
      if m2 then remove(I.blocked_on, g2, m2) end
      remove(I.leased, g3, m3)
      if m4 then remove(I.attempt_timeout, g4, m4) end
      add(I.blocked, h5, o5)
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c1 = time
        local c3 = n.attempt_timeout_remaining_ms
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'suspended' then k = k + 2 s[k - 1], s[k] = '0m5', 'suspended' end
        if r.suspended_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'Zcl' else k = k + 2 s[k - 1], s[k] = 'Zcl', c1 end end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        if r.attempt_timeout_remaining_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = 'mmV' else k = k + 2 s[k - 1], s[k] = 'mmV', c3 end end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, suspended_at_ms = r.suspended_at_ms, lease_expires_at_ms = r.lease_expires_at_ms, attempt_timeout_remaining_ms = r.attempt_timeout_remaining_ms })
        r.attempt_state = 'suspended'
        r.suspended_at_ms = c1
        r.lease_expires_at_ms = nil
        r.attempt_timeout_remaining_ms = c3
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
      local v_lease_id = a[6]
      local v_lease_epoch = n.lease_epoch
      local v_worker_instance_id = a[7]
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'revoked', 'UK4', 'quarantined', 'fwj', v_occurred_at_ms }, 10
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
    return { 1 }
  end,
}
