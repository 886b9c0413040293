-- create_waitpoint(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names, approvers)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and same(r.lifecycle_phase, 'active') and same(r.ownership_state, 'leased') and less(now(), r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(now(), r.attempt_timeout_at_ms))) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(now(), 'last_mutation_at')
      w.last_mutation_at = c0
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        waitpoint_id = required(a[8], 'waitpoint_id'),
        execution_id = required(a[3], 'execution_id'),
        token_kid = required(a[9], 'token_kid'),
        token_digest = required(a[10], 'token_digest'),
        created_at_ms = required(a[11], 'created_at_ms'),
        expires_at_ms = a[12],
        waitpoint_key = required(a[13], 'waitpoint_key'),
        state = required('pending', 'state'),
        required_signal_names = required(a[15], 'required_signal_names'),
        attempt_index = required(a[5], 'attempt_index'),
        payload_schema = a[14],
        approvers = required(a[16], 'approvers'),
      }
      local pk = int(row.partition_key) .. uuid(row.waitpoint_id)
      insert(T.ff_waitpoint_pending, pk, row, 1)
    end
    do local at = a[12] if at then wake('waitpoint_expiry', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
