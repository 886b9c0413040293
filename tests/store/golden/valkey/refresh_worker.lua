-- refresh_worker(namespace, worker_instance_id, version, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_worker_registry, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[5], 'worker_id')
      local c1 = required(a[6], 'lanes')
      local c2 = required(a[7], 'capabilities')
      local c3 = required(a[8], 'liveness_ttl_ms')
      local c4 = required(a[9], 'expires_at_ms')
      local c5 = required(plus(r.version, '1'), 'version')
      local c6 = required(a[10], 'last_heartbeat_ms')
      w.worker_id = c0
      w.lanes = c1
      w.capabilities = c2
      w.liveness_ttl_ms = c3
      w.expires_at_ms = c4
      w.version = c5
      w.last_heartbeat_ms = c6
      put(T.ff_worker_registry, pk, w)
      n = w
    end
    do
      local row = {
        event_id = next_number(T.ff_worker_registry_event),
        namespace = required(n.namespace, 'namespace'),
        worker_instance_id = required(n.worker_instance_id, 'worker_instance_id'),
        event_kind = required('registered', 'event_kind'),
        event_at_ms = required(a[10], 'event_at_ms'),
        reason = nil,
      }
      local pk = int(row.event_id)
      insert(T.ff_worker_registry_event, pk, row, 1)
    end
    wake('worker_registered', '', nil, '')
    return row_answer(0, {  })
  end,
}
