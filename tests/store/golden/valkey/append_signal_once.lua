-- append_signal_once(partition_key, execution_id, version, now, satisfied_set, satisfier_signal_ids, waitpoint_id, signals_trimmed, signal_id, waitpoint_key, suspension_id, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag, dedup_until_ms)
local constant_0 = { 'version', 'last_mutation_at' }
local constant_1 = { 'satisfied_set', 'satisfier_signal_ids', 'last_signal_at_ms', 'version' }
local constant_2 = { 'signal_count', 'signals_trimmed', 'last_signal_at_ms', 'version' }
local constant_3 = { 'waitpoint_id', 'waitpoint_key', 'suspension_id', 'attempt_index', 'signal_name', 'signal_category', 'source_type', 'source_identity', 'correlation_id', 'payload_encoding', 'target_scope', 'idempotency_key', 'created_at_ms', 'observed_effect', 'matched', 'payload', 'comment', 'link', 'accepted_at_ms' }
local constant_4 = { 'execution_id', 'signal_id', 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and r.lifecycle_phase == 'suspended') then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at })
      r.version = c0
      r.last_mutation_at = c1
      change(T.ff_exec_core, pk, s, u)
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_suspension_current, pk)
      if r then
        local c0 = required(a[6], 'satisfied_set')
        local c1 = required(a[7], 'satisfier_signal_ids')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local s, k, u, j = {}, 0, {}, 0
        if r.satisfied_set ~= c0 then if c0 == '[]' then j = j + 1 u[j] = 'Gpo' else k = k + 2 s[k - 1], s[k] = 'Gpo', c0 end end
        if r.satisfier_signal_ids ~= c1 then if c1 == '[]' then j = j + 1 u[j] = 'WMG' else k = k + 2 s[k - 1], s[k] = 'WMG', c1 end end
        if r.last_signal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = '2Zl' else k = k + 2 s[k - 1], s[k] = '2Zl', c2 end end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        note_change(T.ff_suspension_current, pk, r, constant_1, { satisfied_set = r.satisfied_set, satisfier_signal_ids = r.satisfier_signal_ids, last_signal_at_ms = r.last_signal_at_ms, version = r.version })
        r.satisfied_set = c0
        r.satisfier_signal_ids = c1
        r.last_signal_at_ms = c2
        r.version = c3
        change(T.ff_suspension_current, pk, s, u)
      end
    end
    do
      local pk = int(a[2]) .. uuid(a[8])
      local r = a[2] ~= nil and a[8] ~= nil and fetch(T.ff_waitpoint_pending, pk)
      if r then
        local c0 = required(plus(r.signal_count, '1'), 'signal_count')
        local c1 = required(a[9], 'signals_trimmed')
        local c2 = a[5]
        local c3 = required(plus(r.version, '1'), 'version')
        local s, k, u, j = {}, 0, {}, 0
        if r.signal_count ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'MIY' else k = k + 2 s[k - 1], s[k] = 'MIY', c0 end end
        if r.signals_trimmed ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'd7K' else k = k + 2 s[k - 1], s[k] = 'd7K', c1 end end
        if r.last_signal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = '2Zl' else k = k + 2 s[k - 1], s[k] = '2Zl', c2 end end
        if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
        note_change(T.ff_waitpoint_pending, pk, r, constant_2, { signal_count = r.signal_count, signals_trimmed = r.signals_trimmed, last_signal_at_ms = r.last_signal_at_ms, version = r.version })
        r.signal_count = c0
        r.signals_trimmed = c1
        r.last_signal_at_ms = c2
        r.version = c3
        change(T.ff_waitpoint_pending, pk, s, u)
      end
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_signal_id = required(a[10], 'signal_id')
      local v_waitpoint_id = required(a[8], 'waitpoint_id')
      local v_waitpoint_key = required(a[11], 'waitpoint_key')
      local v_suspension_id = a[12]
      local v_attempt_index = required(a[13], 'attempt_index')
      local v_signal_name = required(a[14], 'signal_name')
      local v_signal_category = required(a[15], 'signal_category')
      local v_source_type = required(a[16], 'source_type')
      local v_source_identity = required(a[17], 'source_identity')
      local v_correlation_id = required(a[18], 'correlation_id')
      local v_payload_encoding = a[19]
      local v_target_scope = required(a[20], 'target_scope')
      local v_idempotency_key = a[21]
      local v_created_at_ms = required(a[22], 'created_at_ms')
      local v_accepted_at_ms = required(a[5], 'accepted_at_ms')
      local v_observed_effect = required(a[23], 'observed_effect')
      local v_matched = required(a[24], 'matched')
      local v_payload = a[25]
      local v_comment = required(a[26], 'comment')
      local v_link = required(a[27], 'link')
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. uuid(v_signal_id)
      local r = fetch(T.ff_signal, pk)
      if r then
        local c0 = required(a[8], 'waitpoint_id')
        local c1 = required(a[11], 'waitpoint_key')
        local c2 = a[12]
        local c3 = required(a[13], 'attempt_index')
        local c4 = required(a[14], 'signal_name')
        local c5 = required(a[15], 'signal_category')
        local c6 = required(a[16], 'source_type')
        local c7 = required(a[17], 'source_identity')
        local c8 = required(a[18], 'correlation_id')
        local c9 = a[19]
        local c10 = required(a[20], 'target_scope')
        local c11 = a[21]
        local c12 = required(a[22], 'created_at_ms')
        local c13 = required(a[23], 'observed_effect')
        local c14 = required(a[24], 'matched')
        local c15 = a[25]
        local c16 = required(a[26], 'comment')
        local c17 = required(a[27], 'link')
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
        note_change(T.ff_signal, pk, r, constant_3, { waitpoint_id = r.waitpoint_id, waitpoint_key = r.waitpoint_key, suspension_id = r.suspension_id, attempt_index = r.attempt_index, signal_name = r.signal_name, signal_category = r.signal_category, source_type = r.source_type, source_identity = r.source_identity, correlation_id = r.correlation_id, payload_encoding = r.payload_encoding, target_scope = r.target_scope, idempotency_key = r.idempotency_key, created_at_ms = r.created_at_ms, observed_effect = r.observed_effect, matched = r.matched, payload = r.payload, comment = r.comment, link = r.link, accepted_at_ms = r.accepted_at_ms })
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
        if exists(T.ff_signal, pk) then refuse(3) end
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
      local v_signal_id = required(a[10], 'signal_id')
      local v_waitpoint_id = required(a[8], 'waitpoint_id')
      local v_source_identity = a[17]
      local v_event_type = required(a[23], 'event_type')
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_partition_key = required(a[2], 'partition_key')
      local v_namespace = a[28]
      local v_instance_tag = a[29]
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
      local v_partition_key = required(a[2], 'partition_key')
      local v_waitpoint_id = required(a[8], 'waitpoint_id')
      local v_idempotency_key = required(a[21], 'idempotency_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_signal_id = required(a[10], 'signal_id')
      local v_expires_at_ms = required(a[30], 'expires_at_ms')
      local pk = int(v_partition_key) .. uuid(v_waitpoint_id) .. word(v_idempotency_key)
      local r = fetch(T.ff_signal_dedup, pk)
      if r then
        local c0 = required(a[3], 'execution_id')
        local c1 = required(a[10], 'signal_id')
        local c2 = required(a[30], 'expires_at_ms')
        local g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        local g1, m1 = int(r.partition_key) .. uuid(r.execution_id), uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.execution_id ~= c0 then k = k + 2 s[k - 1], s[k] = '6Pr', c0 end
        if r.signal_id ~= c1 then k = k + 2 s[k - 1], s[k] = 'xXY', c1 end
        if r.expires_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = 'tP9', c2 end
        note_change(T.ff_signal_dedup, pk, r, constant_4, { execution_id = r.execution_id, signal_id = r.signal_id, expires_at_ms = r.expires_at_ms })
        r.execution_id = c0
        r.signal_id = c1
        r.expires_at_ms = c2
        local h0, o0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        local h1, o1 = int(r.partition_key) .. uuid(r.execution_id), uuid(r.waitpoint_id) .. word(r.idempotency_key) .. pk
        change(T.ff_signal_dedup, pk, s, u)
        move(I.signal_dedup_expiry, g0, m0, h0, o0)
        move(I.signal_dedup_of, g1, m1, h1, o1)
      else
        if exists(T.ff_signal_dedup, pk) then refuse(5) end
        local h0, o0 = '', int(v_expires_at_ms) .. uuid(v_waitpoint_id) .. word(v_idempotency_key) .. pk
        local h1, o1 = int(v_partition_key) .. uuid(v_execution_id), uuid(v_waitpoint_id) .. word(v_idempotency_key) .. pk
        local s, k = { 'WYb', v_partition_key, 'mbj', v_waitpoint_id, 'zaU', v_idempotency_key, '6Pr', v_execution_id, 'xXY', v_signal_id, 'tP9', v_expires_at_ms }, 12
        make(T.ff_signal_dedup, pk, s)
        add(I.signal_dedup_expiry, h0, o0)
        add(I.signal_dedup_of, h1, o1)
      end
    end
    wake('ff_signal_event', '', '', '')
    return { 1 }
  end,
}
