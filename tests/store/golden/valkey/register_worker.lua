-- register_worker(namespace, worker_instance_id, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_namespace = required(a[2], 'namespace')
      local v_worker_instance_id = required(a[3], 'worker_instance_id')
      local v_worker_id = required(a[4], 'worker_id')
      local v_lanes = required(a[5], 'lanes')
      local v_capabilities = required(a[6], 'capabilities')
      local v_last_heartbeat_ms = required(a[9], 'last_heartbeat_ms')
      local v_liveness_ttl_ms = required(a[7], 'liveness_ttl_ms')
      local v_expires_at_ms = required(a[8], 'expires_at_ms')
      local v_registered_at_ms = required(a[9], 'registered_at_ms')
      local pk = word(v_namespace) .. word(v_worker_instance_id)
      if exists(T.ff_worker_registry, pk) then refuse(0) end
      local h0, o0 = '', int(v_expires_at_ms) .. word(v_namespace) .. word(v_worker_instance_id) .. pk
      local s, k = { 'CG9', v_namespace, 'qqT', v_worker_instance_id, 'wDj', v_worker_id, 'uMh', v_last_heartbeat_ms, 'rZT', v_liveness_ttl_ms, 'tP9', v_expires_at_ms, '09o', v_registered_at_ms }, 14
      if v_lanes ~= '[]' then k = k + 2 s[k - 1], s[k] = 'zBw', v_lanes end
      if v_capabilities ~= '[]' then k = k + 2 s[k - 1], s[k] = 'h2K', v_capabilities end
      make(T.ff_worker_registry, pk, s)
      add(I.worker_expiry, h0, o0)
      n = { namespace = v_namespace, worker_instance_id = v_worker_instance_id }
    end
    do
      local v_event_id = next_number(T.ff_worker_registry_event)
      local v_namespace = required(n.namespace, 'namespace')
      local v_worker_instance_id = required(n.worker_instance_id, 'worker_instance_id')
      local v_event_at_ms = required(a[9], 'event_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = '', int(v_event_at_ms) .. int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, 'CG9', v_namespace, 'qqT', v_worker_instance_id, 'AtC', 'registered', 'IFX', v_event_at_ms }, 10
      make(T.ff_worker_registry_event, pk, s)
      add(I.worker_events, h0, o0)
    end
    wake('worker_registered', '', '', '')
    wake('worker_expiry', '', '', a[8])
    return { 1 }
  end,
}
