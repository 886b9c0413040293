-- remember_suspend(partition_key, idempotency_key, execution_id, outcome_json, expires_at_ms, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        idempotency_key = required(a[3], 'idempotency_key'),
        execution_id = required(a[4], 'execution_id'),
        outcome_json = required(a[5], 'outcome_json'),
        created_at_ms = required(a[7], 'created_at_ms'),
        expires_at_ms = required(a[6], 'expires_at_ms'),
      }
      local pk = int(row.partition_key) .. word(row.idempotency_key)
      n = insert(T.ff_suspend_dedup, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
