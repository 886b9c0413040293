-- fail_for_good(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, reason, category)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'attempt_timeout_at_ms', 'failure_reason', 'last_failure_message', 'closing_epoch', 'closing_attempt_index', 'terminal_at_ms', 'retain_until_ms', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'attempt_state' }
local constant_1 = { 'attempt_state', 'outcome', 'terminal_at_ms', 'lease_expires_at_ms', 'failure_reason', 'failure_category' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(time, r.attempt_timeout_at_ms))) then refuse(0) end
      b = { failed_retention_ttl_ms = r.failed_retention_ttl_ms }
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(time, 'last_transition_at')
      local c11 = a[8]
      local c12 = a[8]
      local c13 = a[4]
      local c14 = a[5]
      local c15 = time
      local c16 = plus(time, b.failed_retention_ttl_ms)
      local g1, m1
      if r.quota_policy_id ~= nil then g1, m1 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g2, m2
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g2, m2 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local g4, m4
      if r.attempt_timeout_at_ms ~= nil then g4, m4 = '', int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5
      if r.deadline_at_ms ~= nil then g5, m5 = '', int(r.deadline_at_ms) .. uuid(r.execution_id) .. pk end
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
      if r.failure_reason ~= c11 then if c11 == nil then j = j + 1 u[j] = 'WVp' else k = k + 2 s[k - 1], s[k] = 'WVp', c11 end end
      if r.last_failure_message ~= c12 then if c12 == nil then j = j + 1 u[j] = 'gZ1' else k = k + 2 s[k - 1], s[k] = 'gZ1', c12 end end
      if r.closing_epoch ~= c13 then if c13 == nil then j = j + 1 u[j] = 'NdX' else k = k + 2 s[k - 1], s[k] = 'NdX', c13 end end
      if r.closing_attempt_index ~= c14 then if c14 == nil then j = j + 1 u[j] = 'sl4' else k = k + 2 s[k - 1], s[k] = 'sl4', c14 end end
      if r.terminal_at_ms ~= c15 then if c15 == nil then j = j + 1 u[j] = 'Xv6' else k = k + 2 s[k - 1], s[k] = 'Xv6', c15 end end
      if r.retain_until_ms ~= c16 then if c16 == nil then j = j + 1 u[j] = 'Fjr' else k = k + 2 s[k - 1], s[k] = 'Fjr', c16 end end
      if r.lifecycle_phase ~= 'terminal' then k = k + 2 s[k - 1], s[k] = 'ktU', 'terminal' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'not_applicable' then k = k + 2 s[k - 1], s[k] = 'sBF', 'not_applicable' end
      if r.blocking_reason ~= 'none' then j = j + 1 u[j] = 'nDk' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      if r.terminal_outcome ~= 'failed' then k = k + 2 s[k - 1], s[k] = 'CrN', 'failed' end
      if r.public_state ~= 'failed' then k = k + 2 s[k - 1], s[k] = 'dV2', 'failed' end
      if r.attempt_state ~= 'attempt_terminal' then k = k + 2 s[k - 1], s[k] = '0m5', 'attempt_terminal' end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_lease_id = r.current_lease_id, current_worker_id = r.current_worker_id, current_worker_instance_id = r.current_worker_instance_id, lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline, lease_expired_at = r.lease_expired_at, attempt_timeout_at_ms = r.attempt_timeout_at_ms, failure_reason = r.failure_reason, last_failure_message = r.last_failure_message, closing_epoch = r.closing_epoch, closing_attempt_index = r.closing_attempt_index, terminal_at_ms = r.terminal_at_ms, retain_until_ms = r.retain_until_ms, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, attempt_state = r.attempt_state })
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
      r.failure_reason = c11
      r.last_failure_message = c12
      r.closing_epoch = c13
      r.closing_attempt_index = c14
      r.terminal_at_ms = c15
      r.retain_until_ms = c16
      r.lifecycle_phase = 'terminal'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'not_applicable'
      r.blocking_reason = 'none'
      r.blocking_detail = ''
      r.terminal_outcome = 'failed'
      r.public_state = 'failed'
      r.attempt_state = 'attempt_terminal'
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h6, o6
      if r.retain_until_ms == nil then h6, o6 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local h7, o7
      if r.retain_until_ms ~= nil then h7, o7 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      add(I.unowned, h0, o0)
      if m1 then remove(I.held, g1, m1) end
      if m2 then remove(I.blocked_on, g2, m2) end
      remove(I.leased, g3, m3)
      if m4 then remove(I.attempt_timeout, g4, m4) end
      if m5 then remove(I.deadline, g5, m5) end
      if o6 then add(I.failed, h6, o6) end
      if o7 then add(I.retained, h7, o7) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c2 = time
        local c4 = a[8]
        local c5 = a[9]
        local s, k, u, j = {}, 0, {}, 0
        if r.attempt_state ~= 'ended_failure' then k = k + 2 s[k - 1], s[k] = '0m5', 'ended_failure' end
        if r.outcome ~= 'failed' then k = k + 2 s[k - 1], s[k] = 'EtN', 'failed' end
        if r.terminal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'Xv6' else k = k + 2 s[k - 1], s[k] = 'Xv6', c2 end end
        if r.lease_expires_at_ms ~= nil then j = j + 1 u[j] = 'nWb' end
        if r.failure_reason ~= c4 then if c4 == nil then j = j + 1 u[j] = 'WVp' else k = k + 2 s[k - 1], s[k] = 'WVp', c4 end end
        if r.failure_category ~= c5 then if c5 == nil then j = j + 1 u[j] = 'Ekd' else k = k + 2 s[k - 1], s[k] = 'Ekd', c5 end end
        note_change(T.ff_attempt, pk, r, constant_1, { attempt_state = r.attempt_state, outcome = r.outcome, terminal_at_ms = r.terminal_at_ms, lease_expires_at_ms = r.lease_expires_at_ms, failure_reason = r.failure_reason, failure_category = r.failure_category })
        r.attempt_state = 'ended_failure'
        r.outcome = 'failed'
        r.terminal_at_ms = c2
        r.lease_expires_at_ms = nil
        r.failure_reason = c4
        r.failure_category = c5
        change(T.ff_attempt, pk, s, u)
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
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'revoked', 'UK4', 'failed', 'fwj', v_occurred_at_ms }, 10
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
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'EtN', 'failed', 'fwj', v_occurred_at_ms }, 8
      if v_flow_id ~= nil then k = k + 2 s[k - 1], s[k] = 'vkT', v_flow_id end
      if v_committed_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = '49B', v_committed_at_ms end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_completion_event, pk, s)
      if o0 then add(I.undispatched, h0, o0) end
      add(I.completion_events_of, h1, o1)
    end
    wake('ff_lease_event', '', '', '')
    wake('ff_completion_event', '', '', '')
    return { 1, n.flow_id or false }
  end,
}
