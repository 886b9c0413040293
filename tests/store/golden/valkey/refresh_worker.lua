-- refresh_worker(namespace, worker_instance_id, version, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)
local constant_0 = { 'worker_id', 'lanes', 'capabilities', 'liveness_ttl_ms', 'expires_at_ms', 'version', 'last_heartbeat_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_worker_registry, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(a[5], 'worker_id')
      local c1 = required(a[6], 'lanes')
      local c2 = required(a[7], 'capabilities')
      local c3 = required(a[8], 'liveness_ttl_ms')
      local c4 = required(a[9], 'expires_at_ms')
      local c5 = required(plus(r.version, '1'), 'version')
      local c6 = required(a[10], 'last_heartbeat_ms')
      local g0, m0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.worker_instance_id) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.worker_id ~= c0 then k = k + 2 s[k - 1], s[k] = 'wDj', c0 end
      if r.lanes ~= c1 then if c1 == '[]' then j = j + 1 u[j] = 'zBw' else k = k + 2 s[k - 1], s[k] = 'zBw', c1 end end
      if r.capabilities ~= c2 then if c2 == '[]' then j = j + 1 u[j] = 'h2K' else k = k + 2 s[k - 1], s[k] = 'h2K', c2 end end
      if r.liveness_ttl_ms ~= c3 then k = k + 2 s[k - 1], s[k] = 'rZT', c3 end
      if r.expires_at_ms ~= c4 then k = k + 2 s[k - 1], s[k] = 'tP9', c4 end
      if r.version ~= c5 then if c5 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c5 end end
      if r.last_heartbeat_ms ~= c6 then k = k + 2 s[k - 1], s[k] = 'uMh', c6 end
      note_change(T.ff_worker_registry, pk, r, constant_0, { worker_id = r.worker_id, lanes = r.lanes, capabilities = r.capabilities, liveness_ttl_ms = r.liveness_ttl_ms, expires_at_ms = r.expires_at_ms, version = r.version, last_heartbeat_ms = r.last_heartbeat_ms })
      r.worker_id = c0
      r.lanes = c1
      r.capabilities = c2
      r.liveness_ttl_ms = c3
      r.expires_at_ms = c4
      r.version = c5
      r.last_heartbeat_ms = c6
      local h0, o0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.worker_instance_id) .. pk
      change(T.ff_worker_registry, pk, s, u)
      move(I.worker_expiry, g0, m0, h0, o0)
      n = r
    end
    do
      local v_event_id = next_number(T.ff_worker_registry_event)
      local v_namespace = required(n.namespace, 'namespace')
      local v_worker_instance_id = required(n.worker_instance_id, 'worker_instance_id')
      local v_event_at_ms = required(a[10], 'event_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = '', int(v_event_at_ms) .. int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, 'CG9', v_namespace, 'qqT', v_worker_instance_id, 'AtC', 'registered', 'IFX', v_event_at_ms }, 10
      make(T.ff_worker_registry_event, pk, s)
      add(I.worker_events, h0, o0)
    end
    wake('worker_registered', '', '', '')
    return { 1 }
  end,
}
