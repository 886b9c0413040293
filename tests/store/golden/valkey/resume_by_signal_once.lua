-- resume_by_signal_once(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms, satisfied_set, satisfier_signal_ids, signal_id, waitpoint_id, signals_trimmed, suspension_id, waitpoint_key, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag, dedup_until_ms)
local constant_0 = { 'version', 'last_mutation_at', 'last_transition_at', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'public_state', 'current_suspension_id', 'current_waitpoint_id', 'delay_until_ms' }
local constant_1 = { 'satisfied_set', 'satisfier_signal_ids', 'last_signal_at_ms', 'version', 'closed_at_ms', 'close_reason', 'closer_signal_id' }
local constant_2 = { 'signal_count', 'signals_trimmed', 'last_signal_at_ms', 'version', 'matched_signal_count', 'state', 'close_reason', 'satisfied_at_ms', 'closed_at_ms' }
local constant_3 = { 'state', 'close_reason', 'satisfied_at_ms', 'closed_at_ms', 'version' }
local constant_4 = { 'waitpoint_id', 'waitpoint_key', 'suspension_id', 'attempt_index', 'signal_name', 'signal_category', 'source_type', 'source_identity', 'correlation_id', 'payload_encoding', 'target_scope', 'idempotency_key', 'created_at_ms', 'observed_effect', 'matched', 'payload', 'comment', 'link', 'accepted_at_ms' }
local constant_5 = { 'execution_id', 'signal_id', 'expires_at_ms' }
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
      local c5 = required(a[6], 'eligibility_state')
      local c6 = required(a[7], 'blocking_reason')
      local c7 = required(a[8], 'blocking_detail')
      local c9 = required(a[9], 'public_state')
      local c12 = a[10]
      local g0, m0
      if (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') then g0, m0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local g3, m3
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g3, m3 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g4, m4
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then g4, m4 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g6, m6
      if r.ownership_state == 'leased' then g6, m6 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local g7, m7
      if r.ownership_state == 'lease_expired_reclaimable' then g7, m7 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.last_transition_at ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'B1t' else k = k + 2 s[k - 1], s[k] = 'B1t', c2 end end
      if r.lifecycle_phase ~= 'runnable' then k = k + 2 s[k - 1], s[k] = 'ktU', 'runnable' end
      if r.ownership_state ~= 'unowned' then j = j + 1 u[j] = 'mvo' end
      if r.eligibility_state ~= c5 then k = k + 2 s[k - 1], s[k] = 'sBF', c5 end
      if r.blocking_reason ~= c6 then if c6 == 'none' then j = j + 1 u[j] = 'nDk' else k = k + 2 s[k - 1], s[k] = 'nDk', c6 end end
      if r.blocking_detail ~= c7 then if c7 == '' then j = j + 1 u[j] = 's1n' else k = k + 2 s[k - 1], s[k] = 's1n', c7 end end
      if r.terminal_outcome ~= 'none' then j = j + 1 u[j] = 'CrN' end
      if r.public_state ~= c9 then k = k + 2 s[k - 1], s[k] = 'dV2', c9 end
      if r.current_suspension_id ~= nil then j = j + 1 u[j] = 'oYn' end
      if r.current_waitpoint_id ~= nil then j = j + 1 u[j] = 'TKf' end
      if r.delay_until_ms ~= c12 then if c12 == nil then j = j + 1 u[j] = 'Nsm' else k = k + 2 s[k - 1], s[k] = 'Nsm', c12 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, last_transition_at = r.last_transition_at, lifecycle_phase = r.lifecycle_phase, ownership_state = r.ownership_state, eligibility_state = r.eligibility_state, blocking_reason = r.blocking_reason, blocking_detail = r.blocking_detail, terminal_outcome = r.terminal_outcome, public_state = r.public_state, current_suspension_id = r.current_suspension_id, current_waitpoint_id = r.current_waitpoint_id, delay_until_ms = r.delay_until_ms })
      r.version = c0
      r.last_mutation_at = c1
      r.last_transition_at = c2
      r.lifecycle_phase = 'runnable'
      r.ownership_state = 'unowned'
      r.eligibility_state = c5
      r.blocking_reason = c6
      r.blocking_detail = c7
      r.terminal_outcome = 'none'
      r.public_state = c9
      r.current_suspension_id = nil
      r.current_waitpoint_id = nil
      r.delay_until_ms = c12
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.execution_id) .. pk
      local h2, o2
      if r.eligibility_state == 'eligible_now' then h2, o2 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h4, o4
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil then h4, o4 = word(r.blocked_on), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h5, o5
      if r.eligibility_state == 'not_eligible_until_time' then h5, o5 = '', int(r.delay_until_ms) .. uuid(r.execution_id) .. pk end
      local h8, o8
      if r.eligibility_state == 'blocked_by_route' then h8, o8 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local h9, o9
      if (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') then h9, o9 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local h10, o10
      if (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') then h10, o10 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      local h11, o11
      if r.eligibility_state == 'blocked_by_dependencies' then h11, o11 = '', int(r.last_transition_at) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.unowned, g0, m0, h0, o0)
      remove(I.suspended_executions, g1, m1)
      if o2 then add(I.ready, h2, o2) end
      if m3 then remove(I.held, g3, m3) end
      move(I.blocked_on, g4, m4, h4, o4)
      if o5 then add(I.delayed, h5, o5) end
      if m6 then remove(I.leased, g6, m6) end
      if m7 then remove(I.lost, g7, m7) end
      if o8 then add(I.routed, h8, o8) end
      if o9 then add(I.limited, h9, o9) end
      if o10 then add(I.blocked, h10, o10) end
      if o11 then add(I.dependent, h11, o11) end
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_suspension_current, pk)
      if r then
        local c0 = required(a[11], 'satisfied_set')
        local c1 = required(a[12], 'satisfier_signal_ids')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local c4 = a[5]
        local c6 = a[13]
        local g0, m0
        if r.closed_at_ms == nil then g0, m0 = int(r.partition_key), int(r.suspended_at_ms) .. uuid(r.execution_id) .. pk end
        local g1, m1
        if r.closed_at_ms == nil and r.timeout_at_ms ~= nil then g1, m1 = '', int(r.timeout_at_ms) .. uuid(r.execution_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.satisfied_set ~= c0 then if c0 == '[]' then j = j + 1 u[j] = 'Gpo' else k = k + 2 s[k - 1], s[k] = 'Gpo', c0 end end
        if r.satisfier_signal_ids ~= c1 then if c1 == '[]' then j = j + 1 u[j] = 'WMG' else k = k + 2 s[k - 1], s[k] = 'WMG', c1 end end
        if r.last_signal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = '2Zl' else k = k + 2 s[k - 1], s[k] = '2Zl', c2 end end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        if r.closed_at_ms ~= c4 then if c4 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c4 end end
        if r.close_reason ~= 'resumed' then k = k + 2 s[k - 1], s[k] = 'tLj', 'resumed' end
        if r.closer_signal_id ~= c6 then if c6 == nil then j = j + 1 u[j] = 'Iu8' else k = k + 2 s[k - 1], s[k] = 'Iu8', c6 end end
        note_change(T.ff_suspension_current, pk, r, constant_1, { satisfied_set = r.satisfied_set, satisfier_signal_ids = r.satisfier_signal_ids, last_signal_at_ms = r.last_signal_at_ms, version = r.version, closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, closer_signal_id = r.closer_signal_id })
        r.satisfied_set = c0
        r.satisfier_signal_ids = c1
        r.last_signal_at_ms = c2
        r.version = c3
        r.closed_at_ms = c4
        r.close_reason = 'resumed'
        r.closer_signal_id = c6
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
      local pk = int(a[2]) .. uuid(a[14])
      local r = a[2] ~= nil and a[14] ~= nil and fetch(T.ff_waitpoint_pending, pk)
      if r then
        local c0 = required(plus(r.signal_count, '1'), 'signal_count')
        local c1 = required(a[15], 'signals_trimmed')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local c4 = required(plus(r.matched_signal_count, '1'), 'matched_signal_count')
        local c7 = a[5]
        local c8 = a[5]
        local g0, m0
        if r.state == 'pending' and r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. pk end
        local g1, m1
        if (r.state == 'pending' or r.state == 'active') then g1, m1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.signal_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'MIY' else k = k + 2 s[k - 1], s[k] = 'MIY', c0 end end
        if r.signals_trimmed ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'd7K' else k = k + 2 s[k - 1], s[k] = 'd7K', c1 end end
        if r.last_signal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = '2Zl' else k = k + 2 s[k - 1], s[k] = '2Zl', c2 end end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        if r.matched_signal_count ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'Me0' else k = k + 2 s[k - 1], s[k] = 'Me0', c4 end end
        if r.state ~= 'closed' then k = k + 2 s[k - 1], s[k] = 'X27', 'closed' end
        if r.close_reason ~= 'resumed' then k = k + 2 s[k - 1], s[k] = 'tLj', 'resumed' end
        if r.satisfied_at_ms ~= c7 then if c7 == nil then j = j + 1 u[j] = '6De' else k = k + 2 s[k - 1], s[k] = '6De', c7 end end
        if r.closed_at_ms ~= c8 then if c8 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c8 end end
        note_change(T.ff_waitpoint_pending, pk, r, constant_2, { signal_count = r.signal_count, signals_trimmed = r.signals_trimmed, last_signal_at_ms = r.last_signal_at_ms, version = r.version, matched_signal_count = r.matched_signal_count, state = r.state, close_reason = r.close_reason, satisfied_at_ms = r.satisfied_at_ms, closed_at_ms = r.closed_at_ms })
        r.signal_count = c0
        r.signals_trimmed = c1
        r.last_signal_at_ms = c2
        r.version = c3
        r.matched_signal_count = c4
        r.state = 'closed'
        r.close_reason = 'resumed'
        r.satisfied_at_ms = c7
        r.closed_at_ms = c8
        change(T.ff_waitpoint_pending, pk, s, u)
        if m0 then remove(I.waitpoint_expiry, g0, m0) end
        if m1 then remove(I.open_waitpoints, g1, m1) end
      end
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_row(I.waitpoints_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and (r.state == 'pending' or r.state == 'active') and same(r.suspension_id, a[16]) and differs(r.waitpoint_id, a[14]) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_waitpoint_pending, pk)
        local c2 = a[5]
        local c3 = a[5]
        local c4 = required(plus(r.version, '1'), 'version')
        local g0, m0
        if r.state == 'pending' and r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. pk end
        local g1, m1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.state ~= 'closed' then k = k + 2 s[k - 1], s[k] = 'X27', 'closed' end
        if r.close_reason ~= 'resumed' then k = k + 2 s[k - 1], s[k] = 'tLj', 'resumed' end
        if r.satisfied_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = '6De' else k = k + 2 s[k - 1], s[k] = '6De', c2 end end
        if r.closed_at_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c3 end end
        if r.version ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c4 end end
        note_change(T.ff_waitpoint_pending, pk, r, constant_3, { state = r.state, close_reason = r.close_reason, satisfied_at_ms = r.satisfied_at_ms, closed_at_ms = r.closed_at_ms, version = r.version })
        r.state = 'closed'
        r.close_reason = 'resumed'
        r.satisfied_at_ms = c2
        r.closed_at_ms = c3
        r.version = c4
        change(T.ff_waitpoint_pending, pk, s, u)
        if m0 then remove(I.waitpoint_expiry, g0, m0) end
        remove(I.open_waitpoints, g1, m1)
      end
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_signal_id = required(a[13], 'signal_id')
      local v_waitpoint_id = required(a[14], 'waitpoint_id')
      local v_waitpoint_key = required(a[17], 'waitpoint_key')
      local v_suspension_id = a[16]
      local v_attempt_index = required(a[18], 'attempt_index')
      local v_signal_name = required(a[19], 'signal_name')
      local v_signal_category = required(a[20], 'signal_category')
      local v_source_type = required(a[21], 'source_type')
      local v_source_identity = required(a[22], 'source_identity')
      local v_correlation_id = required(a[23], 'correlation_id')
      local v_payload_encoding = a[24]
      local v_target_scope = required(a[25], 'target_scope')
      local v_idempotency_key = a[26]
      local v_created_at_ms = required(a[27], 'created_at_ms')
      local v_accepted_at_ms = required(a[5], 'accepted_at_ms')
      local v_observed_effect = required(a[28], 'observed_effect')
      local v_matched = required(a[29], 'matched')
      local v_payload = a[30]
      local v_comment = required(a[31], 'comment')
      local v_link = required(a[32], 'link')
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. uuid(v_signal_id)
      local r = fetch(T.ff_signal, pk)
      if r then
        local c0 = required(a[14], 'waitpoint_id')
        local c1 = required(a[17], 'waitpoint_key')
        local c2 = a[16]
        local c3 = required(a[18], 'attempt_index')
        local c4 = required(a[19], 'signal_name')
        local c5 = required(a[20], 'signal_category')
        local c6 = required(a[21], 'source_type')
        local c7 = required(a[22], 'source_identity')
        local c8 = required(a[23], 'correlation_id')
        local c9 = a[24]
        local c10 = required(a[25], 'target_scope')
        local c11 = a[26]
        local c12 = required(a[27], 'created_at_ms')
        local c13 = required(a[28], 'observed_effect')
        local c14 = required(a[29], 'matched')
        local c15 = a[30]
        local c16 = required(a[31], 'comment')
        local c17 = required(a[32], 'link')
        local c18 = required(a[5], 'accepted_at_ms')
        local g0, m0 = int(r.partition_key) .. uuid(r.execution_id), int(r.accepted_at_ms) .. uuid(r.signal_id) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.waitpoint_id ~= c0 then k = k + 2 s[k - 1], s[k] = 'mbj', c0 end
        if r.waitpoint_key ~= c1 then if c1 == '' then j = j + 1 u[j] = 'MCh' else k = k + 2 s[k - 1], s[k] = 'MCh', c1 end end
        if r.suspension_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 'OA3' else k = k + 2 s[k - 1], s[k] = 'OA3', c2 end end
        if r.attempt_index ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'oxR' else k = k + 2 s[k - 1], s[k] = 'oxR', c3 end end
        if r.signal_name ~= c4 then if c4 == '' then j = j + 1 u[j] = 's8b' else k = k + 2 s[k - 1], s[k] = 's8b', c4 end end
        if r.signal_category ~= c5 then if c5 == '' then j = j + 1 u[j] = 'Ej2' else k = k + 2 s[k - 1], s[k] = 'Ej2', c5 end end
        if r.source_type ~= c6 then if c6 == '' then j = j + 1 u[j] = 'Ss5' else k = k + 2 s[k - 1], s[k] = 'Ss5', c6 end end
        if r.source_identity ~= c7 then if c7 == '' then j = j + 1 u[j] = 'y2e' else k = k + 2 s[k - 1], s[k] = 'y2e', c7 end end
        if r.correlation_id ~= c8 then if c8 == '' then j = j + 1 u[j] = '2wE' else k = k + 2 s[k - 1], s[k] = '2wE', c8 end end
        if r.payload_encoding ~= c9 then if c9 == nil then j = j + 1 u[j] = 'LVa' else k = k + 2 s[k - 1], s[k] = 'LVa', c9 end end
        if r.target_scope ~= c10 then if c10 == '' then j = j + 1 u[j] = 'PMF' else k = k + 2 s[k - 1], s[k] = 'PMF', c10 end end
        if r.idempotency_key ~= c11 then if c11 == nil then j = j + 1 u[j] = 'zaU' else k = k + 2 s[k - 1], s[k] = 'zaU', c11 end end
        if r.created_at_ms ~= c12 then k = k + 2 s[k - 1], s[k] = 'yVc', c12 end
        if r.observed_effect ~= c13 then k = k + 2 s[k - 1], s[k] = 'R7O', c13 end
        if r.matched ~= c14 then if c14 == '0' then j = j + 1 u[j] = 'PN7' else k = k + 2 s[k - 1], s[k] = 'PN7', c14 end end
        if r.payload ~= c15 then if c15 == nil then j = j + 1 u[j] = 'tyj' else k = k + 2 s[k - 1], s[k] = 'tyj', c15 end end
        if r.comment ~= c16 then if c16 == '' then j = j + 1 u[j] = 'gaw' else k = k + 2 s[k - 1], s[k] = 'gaw', c16 end end
        if r.link ~= c17 then if c17 == '' then j = j + 1 u[j] = '7LO' else k = k + 2 s[k - 1], s[k] = '7LO', c17 end end
        if r.accepted_at_ms ~= c18 then k = k + 2 s[k - 1], s[k] = 'TUe', c18 end
        note_change(T.ff_signal, pk, r, constant_4, { waitpoint_id = r.waitpoint_id, waitpoint_key = r.waitpoint_key, suspension_id = r.suspension_id, attempt_index = r.attempt_index, signal_name = r.signal_name, signal_category = r.signal_category, source_type = r.source_type, source_identity = r.source_identity, correlation_id = r.correlation_id, payload_encoding = r.payload_encoding, target_scope = r.target_scope, idempotency_key = r.idempotency_key, created_at_ms = r.created_at_ms, observed_effect = r.observed_effect, matched = r.matched, payload = r.payload, comment = r.comment, link = r.link, accepted_at_ms = r.accepted_at_ms })
        r.waitpoint_id = c0
        r.waitpoint_key = c1
        r.suspension_id = c2
        r.attempt_index = c3
        r.signal_name = c4
        r.signal_category = c5
        r.source_type = c6
        r.source_identity = c7
        r.correlation_id = c8
        r.payload_encoding = c9
        r.target_scope = c10
        r.idempotency_key = c11
        r.created_at_ms = c12
        r.observed_effect = c13
        r.matched = c14
        r.payload = c15
        r.comment = c16
        r.link = c17
        r.accepted_at_ms = c18
        local h0, o0 = int(r.partition_key) .. uuid(r.execution_id), int(r.accepted_at_ms) .. uuid(r.signal_id) .. pk
        change(T.ff_signal, pk, s, u)
        move(I.signals_of, g0, m0, h0, o0)
      else
        if exists(T.ff_signal, pk) then refuse(4) end
        local h0, o0 = int(v_partition_key) .. uuid(v_execution_id), int(v_accepted_at_ms) .. uuid(v_signal_id) .. pk
        local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'xXY', v_signal_id, 'mbj', v_waitpoint_id, 'yVc', v_created_at_ms, 'TUe', v_accepted_at_ms, 'R7O', v_observed_effect }, 14
        if v_waitpoint_key ~= '' then k = k + 2 s[k - 1], s[k] = 'MCh', v_waitpoint_key end
        if v_suspension_id ~= nil then k = k + 2 s[k - 1], s[k] = 'OA3', v_suspension_id end
        if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
        if v_signal_name ~= '' then k = k + 2 s[k - 1], s[k] = 's8b', v_signal_name end
        if v_signal_category ~= '' then k = k + 2 s[k - 1], s[k] = 'Ej2', v_signal_category end
        if v_source_type ~= '' then k = k + 2 s[k - 1], s[k] = 'Ss5', v_source_type end
        if v_source_identity ~= '' then k = k + 2 s[k - 1], s[k] = 'y2e', v_source_identity end
        if v_correlation_id ~= '' then k = k + 2 s[k - 1], s[k] = '2wE', v_correlation_id end
        if v_payload_encoding ~= nil then k = k + 2 s[k - 1], s[k] = 'LVa', v_payload_encoding end
        if v_target_scope ~= '' then k = k + 2 s[k - 1], s[k] = 'PMF', v_target_scope end
        if v_idempotency_key ~= nil then k = k + 2 s[k - 1], s[k] = 'zaU', v_idempotency_key end
        if v_matched ~= '0' then k = k + 2 s[k - 1], s[k] = 'PN7', v_matched end
        if v_payload ~= nil then k = k + 2 s[k - 1], s[k] = 'tyj', v_payload end
        if v_comment ~= '' then k = k + 2 s[k - 1], s[k] = 'gaw', v_comment end
        if v_link ~= '' then k = k + 2 s[k - 1], s[k] = '7LO', v_link end
        make(T.ff_signal, pk, s)
        add(I.signals_of, h0, o0)
      end
    end
    do
      local v_event_id = next_number(T.ff_signal_event)
      local v_execution_id = required(a[3], 'execution_id')
      local v_signal_id = required(a[13], 'signal_id')
      local v_waitpoint_id = required(a[14], 'waitpoint_id')
      local v_source_identity = a[22]
      local v_event_type = required(a[28], 'event_type')
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_partition_key = required(a[2], 'partition_key')
      local v_namespace = a[33]
      local v_instance_tag = a[34]
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'xXY', v_signal_id, 'mbj', v_waitpoint_id, 'clW', v_event_type, 'fwj', v_occurred_at_ms }, 12
      if v_source_identity ~= nil then k = k + 2 s[k - 1], s[k] = 'y2e', v_source_identity end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_signal_event, pk, s)
      add(I.signal_events_of, h0, o0)
    end
    do
      local v_event_id = next_number(T.ff_completion_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_committed_at_ms = required(a[5], 'committed_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'EtN', 'resumable', 'fwj', v_occurred_at_ms }, 8
      if v_committed_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = '49B', v_committed_at_ms end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_completion_event, pk, s)
      add(I.completion_events_of, h0, o0)
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_waitpoint_id = required(a[14], 'waitpoint_id')
      local v_idempotency_key = required(a[26], 'idempotency_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_signal_id = required(a[13], 'signal_id')
      local v_expires_at_ms = required(a[35], 'expires_at_ms')
      local pk = int(v_partition_key) .. uuid(v_waitpoint_id) .. word(v_idempotency_key)
      local r = fetch(T.ff_signal_dedup, pk)
      if r then
        local c0 = required(a[3], 'execution_id')
        local c1 = required(a[13], 'signal_id')
        local c2 = required(a[35], 'expires_at_ms')
        local g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        local g1, m1 = int(r.partition_key) .. uuid(r.execution_id), uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.execution_id ~= c0 then k = k + 2 s[k - 1], s[k] = '6Pr', c0 end
        if r.signal_id ~= c1 then k = k + 2 s[k - 1], s[k] = 'xXY', c1 end
        if r.expires_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = 'tP9', c2 end
        note_change(T.ff_signal_dedup, pk, r, constant_5, { execution_id = r.execution_id, signal_id = r.signal_id, expires_at_ms = r.expires_at_ms })
        r.execution_id = c0
        r.signal_id = c1
        r.expires_at_ms = c2
        local h0, o0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        local h1, o1 = int(r.partition_key) .. uuid(r.execution_id), uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        change(T.ff_signal_dedup, pk, s, u)
        move(I.signal_dedup_expiry, g0, m0, h0, o0)
        move(I.signal_dedup_of, g1, m1, h1, o1)
      else
        if exists(T.ff_signal_dedup, pk) then refuse(7) end
        local h0, o0 = '', int(v_expires_at_ms) .. uuid(v_waitpoint_id) .. word(v_idempotency_key) .. pk
        local h1, o1 = int(v_partition_key) .. uuid(v_execution_id), uuid(v_waitpoint_id) .. word(v_idempotency_key) .. pk
        local s, k = { 'WYb', v_partition_key, 'mbj', v_waitpoint_id, 'zaU', v_idempotency_key, '6Pr', v_execution_id, 'xXY', v_signal_id, 'tP9', v_expires_at_ms }, 12
        make(T.ff_signal_dedup, pk, s)
        add(I.signal_dedup_expiry, h0, o0)
        add(I.signal_dedup_of, h1, o1)
      end
    end
    wake('ff_signal_event', '', '', '')
    wake('ff_completion_event', '', '', '')
    wake('ready', 's', n.lane_id, '')
    wake('delayed', '', '', a[10])
    return { 1 }
  end,
}
