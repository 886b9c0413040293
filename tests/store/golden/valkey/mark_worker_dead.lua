-- mark_worker_dead(namespace, worker_instance_id, now, reason)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3])
    local r = fetch(T.ff_worker_registry, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_worker_registry, pk)
    do
      local v_event_id = next_number(T.ff_worker_registry_event)
      local v_namespace = required(n.namespace, 'namespace')
      local v_worker_instance_id = required(n.worker_instance_id, 'worker_instance_id')
      local v_event_at_ms = required(a[4], 'event_at_ms')
      local v_reason = a[5]
      local pk = int(v_event_id)
      local h0, o0 = '', int(v_event_at_ms) .. int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, 'CG9', v_namespace, 'qqT', v_worker_instance_id, 'AtC', 'marked_dead', 'IFX', v_event_at_ms }, 10
      if v_reason ~= nil then k = k + 2 s[k - 1], s[k] = 'UK4', v_reason end
      make(T.ff_worker_registry_event, pk, s)
      add(I.worker_events, h0, o0)
    end
    return { 1 }
  end,
}
