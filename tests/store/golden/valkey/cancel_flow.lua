-- cancel_flow(partition_key, flow_id, version, now, raw_fields)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required('cancelled', 'public_flow_state')
      local c2 = once(r.terminal_at_ms, a[5])
      local c3 = required(a[6], 'raw_fields')
      local c4 = nil
      w.version = c0
      w.public_flow_state = c1
      w.terminal_at_ms = c2
      w.raw_fields = c3
      w.settled_at_ms = c4
      put(T.ff_flow_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
