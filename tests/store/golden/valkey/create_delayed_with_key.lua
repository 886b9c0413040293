-- create_delayed_with_key(lane_id, namespace, idempotency_key, partition_key, execution_id, expires_at_ms, digest, instance_tag, execution_kind, creator_identity, payload_encoding, required_capabilities, budget_ids, quota_policy_id, gate, priority, deadline_at_ms, deadline_origin, max_reclaim_count, attempt_timeout_ms, retention_ttl_ms, failed_retention_ttl_ms, tags, policy, payload, now, blocking_detail, delay_until_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      if not (not (function() local found = {} if a[2] ~= nil then local pk = word(a[2]) local r = fetch(T.ff_lane_registry, pk) if r and same(r.lane_id, a[2]) and (r.state == 'draining' or r.state == 'disabled') then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      local row = {
        namespace = required(a[3], 'namespace'),
        idempotency_key = required(a[4], 'idempotency_key'),
        partition_key = required(a[5], 'partition_key'),
        execution_id = required(a[6], 'execution_id'),
        expires_at_ms = a[7],
        digest = a[8],
      }
      local pk = word(row.namespace) .. word(row.idempotency_key)
      n = insert(T.ff_idempotency, pk, row, 0)
    end
    do
      local row = {
        partition_key = required(a[5], 'partition_key'),
        execution_id = required(a[6], 'execution_id'),
        lane_id = required(a[2], 'lane_id'),
        namespace = required(a[3], 'namespace'),
        instance_tag = a[9],
        execution_kind = required(a[10], 'execution_kind'),
        creator_identity = required(a[11], 'creator_identity'),
        idempotency_key = a[4],
        payload_encoding = a[12],
        required_capabilities = required(a[13], 'required_capabilities'),
        budget_ids = required(a[14], 'budget_ids'),
        quota_policy_id = a[15],
        gate = required(a[16], 'gate'),
        lifecycle_phase = required('runnable', 'lifecycle_phase'),
        ownership_state = required('unowned', 'ownership_state'),
        eligibility_state = required('not_eligible_until_time', 'eligibility_state'),
        blocking_reason = required('waiting_for_delay', 'blocking_reason'),
        blocking_detail = required(a[28], 'blocking_detail'),
        terminal_outcome = required('none', 'terminal_outcome'),
        attempt_state = required('pending_first_attempt', 'attempt_state'),
        public_state = required('delayed', 'public_state'),
        priority = required(a[17], 'priority'),
        created_at_ms = required(a[27], 'created_at_ms'),
        last_transition_at = required(a[27], 'last_transition_at'),
        last_mutation_at = required(a[27], 'last_mutation_at'),
        delay_until_ms = a[29],
        deadline_at_ms = a[18],
        deadline_origin = a[19],
        max_reclaim_count = a[20],
        attempt_timeout_ms = a[21],
        retention_ttl_ms = a[22],
        failed_retention_ttl_ms = a[23],
        tags = required(a[24], 'tags'),
        policy = a[25],
        payload = a[26],
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id)
      insert(T.ff_exec_core, pk, row, 1)
    end
    do local at = a[29] if at then wake('delayed', '', nil, at) end end
    do local at = a[18] if at then wake('deadline', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
