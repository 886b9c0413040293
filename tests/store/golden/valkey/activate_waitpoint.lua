-- activate_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, expires_at_ms)
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
      local c0 = required('active', 'state')
      local c1 = a[5]
      local c2 = a[6]
      local c3 = required(a[7], 'required_signal_names')
      local c4 = a[8]
      local c5 = required(plus(r.version, '1'), 'version')
      w.state = c0
      w.activated_at_ms = c1
      w.suspension_id = c2
      w.required_signal_names = c3
      w.expires_at_ms = c4
      w.version = c5
      put(T.ff_waitpoint_pending, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
