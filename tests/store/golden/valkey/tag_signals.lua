-- tag_signals(partition_key, waitpoint_id, version, suspension_id)
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
      local c0 = required(plus(r.version, '1'), 'version')
      w.version = c0
      put(T.ff_waitpoint_pending, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_row(I.signals_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and same(r.waitpoint_id, n.waitpoint_id) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_signal, pk)
        local w
        w = copy(r)
        local c0 = a[5]
        w.suspension_id = c0
        put(T.ff_signal, pk, w)
      end
    end
    return row_answer(0, {  })
  end,
}
