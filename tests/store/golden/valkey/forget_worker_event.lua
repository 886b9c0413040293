-- forget_worker_event(event_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2])
    local r = fetch(T.ff_worker_registry_event, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_worker_registry_event, pk)
    return { 1 }
  end,
}
