-- create_member_blocked(lane_id, partition_key, execution_id, namespace, instance_tag, execution_kind, creator_identity, idempotency_key, payload_encoding, required_capabilities, budget_ids, quota_policy_id, gate, priority, deadline_at_ms, deadline_origin, max_reclaim_count, attempt_timeout_ms, retention_ttl_ms, failed_retention_ttl_ms, tags, policy, payload, now, flow_id, blocking_detail, delay_until_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      if not (not (function() local found = {} if a[2] ~= nil then local pk = word(a[2]) local r = fetch(T.ff_lane_registry, pk) if r and same(r.lane_id, a[2]) and (r.state == 'draining' or r.state == 'disabled') then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      local row = {
        partition_key = required(a[3], 'partition_key'),
        execution_id = required(a[4], 'execution_id'),
        flow_id = a[26],
        lane_id = required(a[2], 'lane_id'),
        namespace = required(a[5], 'namespace'),
        instance_tag = a[6],
        execution_kind = required(a[7], 'execution_kind'),
        creator_identity = required(a[8], 'creator_identity'),
        idempotency_key = a[9],
        payload_encoding = a[10],
        required_capabilities = required(a[11], 'required_capabilities'),
        budget_ids = required(a[12], 'budget_ids'),
        quota_policy_id = a[13],
        gate = required(a[14], 'gate'),
        lifecycle_phase = required('runnable', 'lifecycle_phase'),
        ownership_state = required('unowned', 'ownership_state'),
        eligibility_state = required('blocked_by_dependencies', 'eligibility_state'),
        blocking_reason = required('waiting_for_children', 'blocking_reason'),
        blocking_detail = required(a[27], 'blocking_detail'),
        terminal_outcome = required('none', 'terminal_outcome'),
        attempt_state = required('pending_first_attempt', 'attempt_state'),
        public_state = required('waiting_children', 'public_state'),
        priority = required(a[15], 'priority'),
        created_at_ms = required(a[25], 'created_at_ms'),
        last_transition_at = required(a[25], 'last_transition_at'),
        last_mutation_at = required(a[25], 'last_mutation_at'),
        delay_until_ms = a[28],
        deadline_at_ms = a[16],
        deadline_origin = a[17],
        max_reclaim_count = a[18],
        attempt_timeout_ms = a[19],
        retention_ttl_ms = a[20],
        failed_retention_ttl_ms = a[21],
        tags = required(a[22], 'tags'),
        policy = a[23],
        payload = a[24],
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id)
      n = insert(T.ff_exec_core, pk, row, 0)
    end
    do local at = a[16] if at then wake('deadline', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
