-- drop_silent_worker(namespace, worker_instance_id, version, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_worker_registry, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b, n = r, r
      put(T.ff_worker_registry, pk, false)
    end
    do
      local row = {
        event_id = next_number(T.ff_worker_registry_event),
        namespace = required(n.namespace, 'namespace'),
        worker_instance_id = required(n.worker_instance_id, 'worker_instance_id'),
        event_kind = required('ttl_swept', 'event_kind'),
        event_at_ms = required(a[5], 'event_at_ms'),
        reason = nil,
      }
      local pk = int(row.event_id)
      insert(T.ff_worker_registry_event, pk, row, 1)
    end
    return row_answer(0, {  })
  end,
}
