-- close_waitpoint(partition_key, waitpoint_id, version, reason)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_waitpoint_pending, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('closed', 'state')
      local c1 = now()
      local c2 = a[5]
      local c3 = required(plus(r.version, '1'), 'version')
      w.state = c0
      w.closed_at_ms = c1
      w.close_reason = c2
      w.version = c3
      put(T.ff_waitpoint_pending, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
