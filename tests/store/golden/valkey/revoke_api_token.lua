-- revoke_api_token(token_id, version, now, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_api_token, pk)
      if not (r and same(r.version, a[3]) and r.revoked_at_ms == nil) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = a[4]
      local c1 = required(plus(r.version, '1'), 'version')
      w.revoked_at_ms = c0
      w.version = c1
      put(T.ff_api_token, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(a[2], 'execution_id'),
        event_type = required('token_revoked', 'event_type'),
        details = a[5],
        occurred_at_ms = required(a[4], 'occurred_at_ms'),
        partition_key = required('0', 'partition_key'),
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
