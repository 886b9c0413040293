-- heartbeat_worker(namespace, worker_instance_id, version, now, expires_at_ms)
local constant_0 = { 'version', 'last_heartbeat_ms', 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_worker_registry, pk)
      if not (r and same(r.version, a[4]) and less(a[5], r.expires_at_ms)) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'last_heartbeat_ms')
      local c2 = required(a[6], 'expires_at_ms')
      local g0, m0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.worker_instance_id) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_heartbeat_ms ~= c1 then k = k + 2 s[k - 1], s[k] = 'uMh', c1 end
      if r.expires_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = 'tP9', c2 end
      note_change(T.ff_worker_registry, pk, r, constant_0, { version = r.version, last_heartbeat_ms = r.last_heartbeat_ms, expires_at_ms = r.expires_at_ms })
      r.version = c0
      r.last_heartbeat_ms = c1
      r.expires_at_ms = c2
      local h0, o0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.worker_instance_id) .. pk
      change(T.ff_worker_registry, pk, s, u)
      move(I.worker_expiry, g0, m0, h0, o0)
      n = r
    end
    do
      local v_event_id = next_number(T.ff_worker_registry_event)
      local v_namespace = required(n.namespace, 'namespace')
      local v_worker_instance_id = required(n.worker_instance_id, 'worker_instance_id')
      local v_event_at_ms = required(a[5], 'event_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = '', int(v_event_at_ms) .. int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, 'CG9', v_namespace, 'qqT', v_worker_instance_id, 'AtC', 'heartbeat', 'IFX', v_event_at_ms }, 10
      make(T.ff_worker_registry_event, pk, s)
      add(I.worker_events, h0, o0)
    end
    return { 1 }
  end,
}
