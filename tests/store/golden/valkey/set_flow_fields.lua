-- set_flow_fields(partition_key, flow_id, version, raw_fields)
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
      local c1 = required(a[5], 'raw_fields')
      w.version = c0
      w.raw_fields = c1
      put(T.ff_flow_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
