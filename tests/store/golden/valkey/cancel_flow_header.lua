-- cancel_flow_header(partition_key, flow_id, version, now, raw_fields, namespace, details)
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
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.flow_id, 'execution_id'),
        event_type = required('flow_cancel_requested', 'event_type'),
        details = a[8],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = a[7],
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
