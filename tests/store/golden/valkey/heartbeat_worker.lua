-- heartbeat_worker(namespace, worker_instance_id, version, now, expires_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_worker_registry, pk)
      if not (r and same(r.version, a[4]) and less(a[5], r.expires_at_ms)) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_heartbeat_ms')
      local c2 = required(a[6], 'expires_at_ms')
      w.version = c0
      w.last_heartbeat_ms = c1
      w.expires_at_ms = c2
      put(T.ff_worker_registry, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_worker_registry_event),
        namespace = required(n.namespace, 'namespace'),
        worker_instance_id = required(n.worker_instance_id, 'worker_instance_id'),
        event_kind = required('heartbeat', 'event_kind'),
        event_at_ms = required(a[5], 'event_at_ms'),
        reason = nil,
      }
      local pk = int(row.event_id)
      insert(T.ff_worker_registry_event, pk, row, 1)
    end
    return row_answer(0, {  })
  end,
}
