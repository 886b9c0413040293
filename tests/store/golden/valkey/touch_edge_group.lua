-- touch_edge_group(partition_key, flow_id, downstream_eid, version)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      w.version = c0
      put(T.ff_edge_group, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
