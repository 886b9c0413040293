-- erase_worker_registry_event(event_id, namespace)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2])
    local r = fetch(T.ff_worker_registry_event, pk)
    if not (r and same(r.namespace, a[3])) then refuse(0) end
    b, n = r, r
    erase(T.ff_worker_registry_event, pk)
    return { 1 }
  end,
}
