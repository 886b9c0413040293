-- erase_worker_registry_event(event_id, namespace)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2])
      local r = fetch(T.ff_worker_registry_event, pk)
      if not (r and same(r.namespace, a[3])) then refuse(0) end
      b, n = r, r
      put(T.ff_worker_registry_event, pk, false)
    end
    return row_answer(0, {  })
  end,
}
