-- sweep_delayed()
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'delay_until_ms' }
return {
  sweep = function(a, limit)
    if limit <= 0 then return {} end
    local time, picked, b, n = now(), {}
    local upto = time
    if upto == nil then return {} end
    each_row(I.delayed, '', nil, int(upto), false, function(pk, r)
      if r.eligibility_state == 'not_eligible_until_time' then picked[#picked + 1] = pk end
      return #picked >= limit
    end, limit)
    local answers = {}
    for at, pk in ipairs(picked) do
      local r = fetch(T.ff_exec_core, pk)
      if not (r and r.eligibility_state == 'not_eligible_until_time') then refuse(0) end
      do
        local c0 = required(plus(r.version, '1'), 'version')
        local c1 = required(time, 'last_mutation_at')
        local c2 = required(time, 'last_transition_at')
        local g0, m0
        if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
        local g2, m2
        if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g2, m2 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
        local g3, m3 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk
        local g4, m4
        if r.ownership_state == 'leased' then g4, m4 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
        local g5, m5
        if r.ownership_state == 'lease_expired_reclaimable' then g5, m5 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
        if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
        if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
        if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
        if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
        if r.eligibility_state ~= 'eligible_now' then k = k + 2 s[k - 1], s[k] = 'sBF', 'eligible_now' end
        if r.blocking_reason ~= 'waiting_for_worker' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_worker' end
        if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
        if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
        if r.public_state ~= 'waiting' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting' end
        if r.delay_until_ms ~= nil then j = j + 1 u[j] = 'Nsm' end
        note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, delay_until_ms = r.delay_until_ms })
        r.version = c0
        r.last_mutation_at = c1
        r.last_transition_at = c2
        r.lifecycle_phase = 'runnable'
        r.ownership_state = 'unowned'
        r.eligibility_state = 'eligible_now'
        r.blocking_reason = 'waiting_for_worker'
        r.blocking_detail = ''
        r.terminal_outcome = 'none'
        r.public_state = 'waiting'
        r.delay_until_ms = nil
        local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
        local h1, o1 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk
        change(T.ff_exec_core, pk, s, u)
        move(I.unowned, g0, m0, h0, o0)
        add(I.ready, h1, o1)
        if m2 then remove(I.held, g2, m2) end
        remove(I.delayed, g3, m3)
        if m4 then remove(I.leased, g4, m4) end
        if m5 then remove(I.lost, g5, m5) end
      end
      n = r
      wake('ready', 's', n.lane_id, '')
      answers[at] = { 1, n.partition_key or false, n.execution_id or false }
    end
    return answers
  end,
}
