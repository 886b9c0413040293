-- see_task(namespace, name, version, declared_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_task, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[5], 'declared_at_ms')
      local c1 = required(now(), 'last_seen_ms')
      local c2 = required(plus(r.version, '1'), 'version')
      w.declared_at_ms = c0
      w.last_seen_ms = c1
      w.version = c2
      put(T.ff_task, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
