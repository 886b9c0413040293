-- drop_silent_worker(namespace, worker_instance_id, version, now)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3])
    local r = fetch(T.ff_worker_registry, pk)
    if not (r and same(r.version, a[4])) then refuse(0) end
    b, n = r, r
    erase(T.ff_worker_registry, pk)
    do
      local v_event_id = next_number(T.ff_worker_registry_event)
      local v_namespace = required(n.namespace, 'namespace')
      local v_worker_instance_id = required(n.worker_instance_id, 'worker_instance_id')
      local v_event_at_ms = required(a[5], 'event_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = '', int(v_event_at_ms) .. int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, 'CG9', v_namespace, 'qqT', v_worker_instance_id, 'AtC', 'ttl_swept', 'IFX', v_event_at_ms }, 10
      make(T.ff_worker_registry_event, pk, s)
      add(I.worker_events, h0, o0)
    end
    return { 1 }
  end,
}
