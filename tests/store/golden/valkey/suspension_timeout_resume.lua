-- suspension_timeout_resume(partition_key, execution_id, version, now, signal_id, waitpoint_id, suspension_id, attempt_index, lane_id)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'current_suspension_id', 'current_waitpoint_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'delay_until_ms' }
local constant_1 = { 'closed_at_ms', 'close_reason', 'version' }
local constant_2 = { 'state', 'closed_at_ms', 'close_reason', 'version' }
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
      local g0, m0
      if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local g3, m3
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g3, m3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g4, m4
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g4, m4 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5
      if r.ownership_state == 'leased' then g5, m5 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g6, m6
      if r.ownership_state == 'lease_expired_reclaimable' then g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.current_suspension_id ~= nil then j = j + 1 u[j] = 'oYn' end
      if r.current_waitpoint_id ~= nil then j = j + 1 u[j] = 'TKf' end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= 'eligible_now' then k = k + 2 s[k - 1], s[k] = 'sBF', 'eligible_now' end
      if r.blocking_reason ~= 'waiting_for_worker' then k = k + 2 s[k - 1], s[k] = 'nDk', 'waiting_for_worker' end
      if r.blocking_detail ~= '' then j = j + 1 u[j] = 's1n' end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= 'waiting' then k = k + 2 s[k - 1], s[k] = 'dV2', 'waiting' end
      if r.delay_until_ms ~= nil then j = j + 1 u[j] = 'Nsm' end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, current_suspension_id = r.current_suspension_id, current_waitpoint_id = r.current_waitpoint_id, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, delay_until_ms = r.delay_until_ms })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.current_suspension_id = nil
      r.current_waitpoint_id = nil
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = 'eligible_now'
      r.blocking_reason = 'waiting_for_worker'
      r.blocking_detail = ''
      r.terminal_outcome = 'none'
      r.public_state = 'waiting'
      r.delay_until_ms = nil
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h2, o2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      remove(I.suspended_executions, g1, m1)
      add(I.ready, h2, o2)
      if m3 then remove(I.held, g3, m3) end
      if m4 then remove(I.blocked_on, g4, m4) end
      if m5 then remove(I.leased, g5, m5) end
      if m6 then remove(I.lost, g6, m6) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_suspension_current, pk)
      if r and r.closed_at_ms == nil then
        local c0 = a[5]
        local c2 = required(plus(r.version, '1'), 'version')
        local g0, m0 = int(r.partition_key), int(r.suspended_at_ms) .. uuid(r.execution_id) .. pk
        local g1, m1
        if r.timeout_at_ms ~= nil then g1, m1 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.closed_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c0 end end
        if r.close_reason ~= 'timed_out_auto_resume' then k = k + 2 s[k - 1], s[k] = 'tLj', 'timed_out_auto_resume' end
        if r.version ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c2 end end
        note_change(T.ff_suspension_current, pk, r, constant_1, { closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
        r.closed_at_ms = c0
        r.close_reason = 'timed_out_auto_resume'
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
        each_row(I.waitpoints_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and (r.state == 'active') then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local c1 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local g0, m0 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.state ~= 'closed' then k = k + 2 s[k - 1], s[k] = 'X27', 'closed' end
        if r.closed_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c1 end end
        if r.close_reason ~= 'timed_out_auto_resume' then k = k + 2 s[k - 1], s[k] = 'tLj', 'timed_out_auto_resume' end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        note_change(T.ff_waitpoint_pending, pk, r, constant_2, { state = r.state, closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
        r.state = 'closed'
        r.closed_at_ms = c1
        r.close_reason = 'timed_out_auto_resume'
        r.version = c3
        change(T.ff_waitpoint_pending, pk, s, u)
        remove(I.open_waitpoints, g0, m0)
      end
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_signal_id = required(a[6], 'signal_id')
      local v_waitpoint_id = required(a[7], 'waitpoint_id')
      local v_suspension_id = a[8]
      local v_attempt_index = required(a[9], 'attempt_index')
      local v_created_at_ms = required(a[5], 'created_at_ms')
      local v_accepted_at_ms = required(a[5], 'accepted_at_ms')
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. uuid(v_signal_id)
      if exists(T.ff_signal, pk) then refuse(3) end
      local h0, o0 = int(v_partition_key) .. uuid(v_execution_id), int(v_accepted_at_ms) .. uuid(v_signal_id) .. pk
      local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'xXY', v_signal_id, 'mbj', v_waitpoint_id, 's8b', 'timeout', 'Ej2', 'system', 'Ss5', 'engine', 'y2e', 'suspension_timeout', 'yVc', v_created_at_ms, 'TUe', v_accepted_at_ms, 'R7O', 'timed_out_auto_resume', 'PN7', '1' }, 24
      if v_suspension_id ~= nil then k = k + 2 s[k - 1], s[k] = 'OA3', v_suspension_id end
      if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
      make(T.ff_signal, pk, s)
      add(I.signals_of, h0, o0)
    end
    wake('ready', 's', a[10], '')
    return { 1 }
  end,
}
