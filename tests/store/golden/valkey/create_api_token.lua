-- create_api_token(token_id, name, digest, roles, namespace, lanes, created_by, expires_at_ms, now, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        token_id = required(a[2], 'token_id'),
        name = required(a[3], 'name'),
        digest = required(a[4], 'digest'),
        roles = required(a[5], 'roles'),
        namespace = a[6],
        lanes = a[7],
        created_at_ms = required(a[10], 'created_at_ms'),
        created_by = required(a[8], 'created_by'),
        expires_at_ms = a[9],
      }
      local pk = uuid(row.token_id)
      n = insert(T.ff_api_token, pk, row, 0)
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(a[2], 'execution_id'),
        event_type = required('token_created', 'event_type'),
        details = a[11],
        occurred_at_ms = required(a[10], 'occurred_at_ms'),
        partition_key = required('0', 'partition_key'),
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
