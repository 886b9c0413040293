-- erase_worker_registry(namespace, worker_instance_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3])
    local r = fetch(T.ff_worker_registry, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_worker_registry, pk)
    return { 1 }
  end,
}
