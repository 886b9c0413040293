-- change_priority(partition_key, execution_id, version, now, priority, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_mutation_at')
      local c2 = required(a[6], 'priority')
      w.version = c0
      w.last_mutation_at = c1
      w.priority = c2
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('priority_changed', 'event_type'),
        details = a[7],
        occurred_at_ms = required(a[5], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 1)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
