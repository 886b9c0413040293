-- cancel_flow_and_owe(partition_key, flow_id, version, now, raw_fields, reason, grace_until_ms, cancellation_policy, namespace, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required('cancelled', 'public_flow_state')
      local c2 = once(r.terminal_at_ms, a[5])
      local c3 = required(a[6], 'raw_fields')
      local c4 = nil
      w.version = c0
      w.public_flow_state = c1
      w.terminal_at_ms = c2
      w.raw_fields = c3
      w.settled_at_ms = c4
      put(T.ff_flow_core, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        requested_at_ms = required(a[5], 'requested_at_ms'),
        requester = required('', 'requester'),
        reason = required(a[7], 'reason'),
        grace_until_ms = a[8],
        cancellation_policy = required(a[9], 'cancellation_policy'),
        status = required('pending', 'status'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id)
      local r = fetch(T.ff_cancel_backlog, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(once(r.requested_at_ms, now()), 'requested_at_ms')
        w.requested_at_ms = c0
        put(T.ff_cancel_backlog, pk, w)
      else
        insert(T.ff_cancel_backlog, pk, row, 1)
      end
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.flow_id, 'execution_id'),
        event_type = required('flow_cancel_requested', 'event_type'),
        details = a[11],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = a[10],
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 2)
    end
    wake('ff_operator_event', '', nil, '')
    do local at = a[8] if at then wake('cancel_backlog', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
