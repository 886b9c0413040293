-- register_worker(namespace, worker_instance_id, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        namespace = required(a[2], 'namespace'),
        worker_instance_id = required(a[3], 'worker_instance_id'),
        worker_id = required(a[4], 'worker_id'),
        lanes = required(a[5], 'lanes'),
        capabilities = required(a[6], 'capabilities'),
        last_heartbeat_ms = required(a[9], 'last_heartbeat_ms'),
        liveness_ttl_ms = required(a[7], 'liveness_ttl_ms'),
        expires_at_ms = required(a[8], 'expires_at_ms'),
        registered_at_ms = required(a[9], 'registered_at_ms'),
      }
      local pk = word(row.namespace) .. word(row.worker_instance_id)
      n = insert(T.ff_worker_registry, pk, row, 0)
    end
    do
      local row = {
        event_id = next_number(T.ff_worker_registry_event),
        namespace = required(n.namespace, 'namespace'),
        worker_instance_id = required(n.worker_instance_id, 'worker_instance_id'),
        event_kind = required('registered', 'event_kind'),
        event_at_ms = required(a[9], 'event_at_ms'),
        reason = nil,
      }
      local pk = int(row.event_id)
      insert(T.ff_worker_registry_event, pk, row, 1)
    end
    wake('worker_registered', '', nil, '')
    do local at = a[8] if at then wake('worker_expiry', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
