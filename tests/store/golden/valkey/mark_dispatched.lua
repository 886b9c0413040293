-- mark_dispatched(event_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2])
      local r = fetch(T.ff_completion_event, pk)
      if not (r and r.dispatched_at_ms == nil) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = now()
      w.dispatched_at_ms = c0
      put(T.ff_completion_event, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
