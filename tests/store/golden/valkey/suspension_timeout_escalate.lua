-- suspension_timeout_escalate(partition_key, execution_id, version, now, blocking_detail)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state' }
local constant_1 = { 'reason_code', 'timeout_at_ms', 'timeout_behavior', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and r.lifecycle_phase == 'suspended') then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[5], 'last_transition_at')
      local c7 = required(a[6], 'blocking_detail')
      local g0, m0
      if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g1, m1 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g2, m2
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g2, m2 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if r.ownership_state == 'leased' then g3, m3 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g4, m4
      if r.ownership_state == 'lease_expired_reclaimable' then g4, m4 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.lifecycle_phase ~= 'suspended' then k = k + 2 s[k - 1], s[k] = 'ktU', 'suspended' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'not_applicable' then k = k + 2 s[k - 1], s[k] = 'sBF', 'not_applicable' end
      if r.blocking_reason ~= 'paused_by_operator' then k = k + 2 s[k - 1], s[k] = 'nDk', 'paused_by_operator' end
      if r.blocking_detail ~= c7 then if c7 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c7 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'suspended' then k = k + 2 s[k - 1], s[k] = 'dV2', 'suspended' end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.lifecycle_phase = 'suspended'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'not_applicable'
      r.blocking_reason = 'paused_by_operator'
      r.blocking_detail = c7
      r.terminal_outcome = 'none'
      r.public_state = 'suspended'
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      if m1 then remove(I.held, g1, m1) end
      if m2 then remove(I.blocked_on, g2, m2) end
      if m3 then remove(I.leased, g3, m3) end
      if m4 then remove(I.lost, g4, m4) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_suspension_current, pk)
      if r and r.closed_at_ms == nil then
        local c3 = required(plus(r.version, '1'), 'version')
        local g0, m0
        if r.timeout_at_ms ~= nil then g0, m0 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.reason_code ~= 'waiting_for_operator_review' then k = k + 2 s[k - 1], s[k] = 'cXQ', 'waiting_for_operator_review' end
        if r.timeout_at_ms ~= nil then j = j + 1 u[j] = '4Dk' end
        if r.timeout_behavior ~= nil then j = j + 1 u[j] = 'AUC' end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        note_change(T.ff_suspension_current, pk, r, constant_1, { reason_code = r.reason_code, timeout_at_ms = r.timeout_at_ms, timeout_behavior = r.timeout_behavior, version = r.version })
        r.reason_code = 'waiting_for_operator_review'
        r.timeout_at_ms = nil
        r.timeout_behavior = nil
        r.version = c3
        change(T.ff_suspension_current, pk, s, u)
        if m0 then remove(I.suspension_timeout, g0, m0) end
      end
    end
    return { 1 }
  end,
}
