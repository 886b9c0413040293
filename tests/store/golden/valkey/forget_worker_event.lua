-- forget_worker_event(event_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2])
      local r = fetch(T.ff_worker_registry_event, pk)
      if not (r) then refuse(0) end
      b, n = r, r
      put(T.ff_worker_registry_event, pk, false)
    end
    return row_answer(0, {  })
  end,
}
