-- resume_schedule(namespace, name)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_schedule, pk)
      if not (r and same(r.paused, '1')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('0', 'paused')
      local c1 = required(now(), 'cursor_ms')
      w.paused = c0
      w.cursor_ms = c1
      put(T.ff_schedule, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
