-- create_ready_with_key(lane_id, namespace, idempotency_key, partition_key, execution_id, expires_at_ms, digest, instance_tag, execution_kind, creator_identity, payload_encoding, required_capabilities, budget_ids, quota_policy_id, gate, priority, deadline_at_ms, deadline_origin, max_reclaim_count, attempt_timeout_ms, retention_ttl_ms, failed_retention_ttl_ms, tags, policy, payload, now)
local function is_met_0(r, a, b, n, time) return r and (r.state == 'draining' or r.state == 'disabled') end
return {
  run = function(a)
    local time, b, n = now()
    do
      if not (not (a[2] ~= nil and is_met_0(fetch(T.ff_lane_registry, word(a[2])), a, b, n, time))) then refuse(0) end
      local v_namespace = required(a[3], 'namespace')
      local v_idempotency_key = required(a[4], 'idempotency_key')
      local v_partition_key = required(a[5], 'partition_key')
      local v_execution_id = required(a[6], 'execution_id')
      local v_expires_at_ms = a[7]
      local v_digest = a[8]
      local pk = word(v_namespace) .. word(v_idempotency_key)
      if exists(T.ff_idempotency, pk) then refuse(0) end
      local h0, o0
      if v_expires_at_ms ~= nil then h0, o0 = '', int(v_expires_at_ms) .. word(v_namespace) .. word(v_idempotency_key) .. pk end
      local s, k = { 'CG9', v_namespace, 'zaU', v_idempotency_key, 'WYb', v_partition_key, '6Pr', v_execution_id }, 8
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      if v_digest ~= nil then k = k + 2 s[k - 1], s[k] = 'slg', v_digest end
      make(T.ff_idempotency, pk, s)
      if o0 then add(I.idempotency, h0, o0) end
    end
    do
      local v_partition_key = required(a[5], 'partition_key')
      local v_execution_id = required(a[6], 'execution_id')
      local v_lane_id = required(a[2], 'lane_id')
      local v_namespace = required(a[3], 'namespace')
      local v_instance_tag = a[9]
      local v_execution_kind = required(a[10], 'execution_kind')
      local v_creator_identity = required(a[11], 'creator_identity')
      local v_idempotency_key = a[4]
      local v_payload_encoding = a[12]
      local v_required_capabilities = required(a[13], 'required_capabilities')
      local v_budget_ids = required(a[14], 'budget_ids')
      local v_quota_policy_id = a[15]
      local v_gate = required(a[16], 'gate')
      local v_priority = required(a[17], 'priority')
      local v_created_at_ms = required(a[27], 'created_at_ms')
      local v_last_transition_at = required(a[27], 'last_transition_at')
      local v_last_mutation_at = required(a[27], 'last_mutation_at')
      local v_deadline_at_ms = a[18]
      local v_deadline_origin = a[19]
      local v_max_reclaim_count = a[20]
      local v_attempt_timeout_ms = a[21]
      local v_retention_ttl_ms = a[22]
      local v_failed_retention_ttl_ms = a[23]
      local v_tags = required(a[24], 'tags')
      local v_policy = a[25]
      local v_payload = a[26]
      local pk = int(v_partition_key) .. uuid(v_execution_id)
      if exists(T.ff_exec_core, pk) then refuse(1) end
      local h0, o0 = '', int(v_created_at_ms) .. uuid(v_execution_id) .. pk
      local h1, o1 = word(v_lane_id) .. word(v_namespace) .. word(v_gate), int_desc(v_priority) .. int(v_created_at_ms) .. uuid(v_execution_id) .. pk
      local h2, o2
      if v_deadline_at_ms ~= nil then h2, o2 = '', int(v_deadline_at_ms) .. uuid(v_execution_id) .. pk end
      local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'tbW', v_lane_id, 'ktU', 'runnable', 'sBF', 'eligible_now', 'nDk', 'waiting_for_worker', '0m5', 'pending_first_attempt', 'dV2', 'waiting', 'yVc', v_created_at_ms }, 18
      local l, kl = {}, 0
      if v_namespace ~= 'default' then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      if v_execution_kind ~= '' then k = k + 2 s[k - 1], s[k] = 'RdB', v_execution_kind end
      if v_creator_identity ~= '' then k = k + 2 s[k - 1], s[k] = 's6Y', v_creator_identity end
      if v_idempotency_key ~= nil then k = k + 2 s[k - 1], s[k] = 'zaU', v_idempotency_key end
      if v_payload_encoding ~= nil then k = k + 2 s[k - 1], s[k] = 'LVa', v_payload_encoding end
      if v_required_capabilities ~= '[]' then k = k + 2 s[k - 1], s[k] = 'ZST', v_required_capabilities end
      if v_budget_ids ~= '[]' then k = k + 2 s[k - 1], s[k] = '3cE', v_budget_ids end
      if v_quota_policy_id ~= nil then k = k + 2 s[k - 1], s[k] = 's1f', v_quota_policy_id end
      if v_gate ~= '' then k = k + 2 s[k - 1], s[k] = 'SZK', v_gate end
      if v_priority ~= '0' then k = k + 2 s[k - 1], s[k] = 'FLD', v_priority end
      if v_last_transition_at ~= '0' then k = k + 2 s[k - 1], s[k] = 'B1t', v_last_transition_at end
      if v_last_mutation_at ~= '0' then k = k + 2 s[k - 1], s[k] = 'tRj', v_last_mutation_at end
      if v_deadline_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'eUt', v_deadline_at_ms end
      if v_deadline_origin ~= nil then k = k + 2 s[k - 1], s[k] = 'qPt', v_deadline_origin end
      if v_max_reclaim_count ~= nil then k = k + 2 s[k - 1], s[k] = 'k2i', v_max_reclaim_count end
      if v_attempt_timeout_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'mMW', v_attempt_timeout_ms end
      if v_retention_ttl_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'psg', v_retention_ttl_ms end
      if v_failed_retention_ttl_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'VAH', v_failed_retention_ttl_ms end
      if v_tags ~= '{}' then k = k + 2 s[k - 1], s[k] = 'qOK', v_tags end
      if v_policy ~= nil then k = k + 2 s[k - 1], s[k] = 'Yji', v_policy end
      if v_payload ~= nil then kl = kl + 2 l[kl - 1], l[kl] = 'tyj', v_payload end
      make(T.ff_exec_core, pk, s, l)
      add(I.unowned, h0, o0)
      add(I.ready, h1, o1)
      if o2 then add(I.deadline, h2, o2) end
    end
    wake('ready', 's', a[2], '')
    wake('deadline', '', '', a[18])
    return { 1 }
  end,
}
