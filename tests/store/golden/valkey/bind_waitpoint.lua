-- bind_waitpoint(partition_key, waitpoint_id, execution_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema, now, suspension_id, required_signal_names)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        waitpoint_id = required(a[3], 'waitpoint_id'),
        execution_id = required(a[4], 'execution_id'),
        token_kid = required(a[5], 'token_kid'),
        token_digest = required(a[6], 'token_digest'),
        created_at_ms = required(a[7], 'created_at_ms'),
        expires_at_ms = a[8],
        waitpoint_key = required(a[9], 'waitpoint_key'),
        state = required('active', 'state'),
        required_signal_names = required(a[14], 'required_signal_names'),
        activated_at_ms = a[12],
        attempt_index = required(a[10], 'attempt_index'),
        suspension_id = a[13],
        payload_schema = a[11],
      }
      local pk = int(row.partition_key) .. uuid(row.waitpoint_id)
      n = insert(T.ff_waitpoint_pending, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
