-- tag_signals(partition_key, waitpoint_id, version, suspension_id)
local constant_0 = { 'version' }
local constant_1 = { 'suspension_id' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_waitpoint_pending, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      note_change(T.ff_waitpoint_pending, pk, r, constant_0, { version = r.version })
      r.version = c0
      change(T.ff_waitpoint_pending, pk, s, u)
      n = r
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        each_row(I.signals_of, int(n.partition_key) .. uuid(n.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and same(r.waitpoint_id, n.waitpoint_id) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_signal, pk)
        local c0 = a[5]
        local s, k, u, j = {}, 0, {}, 0
        if r.suspension_id ~= c0 then if c0 == nil then j = j + 1 u[j] = 'OA3' else k = k + 2 s[k - 1], s[k] = 'OA3', c0 end end
        note_change(T.ff_signal, pk, r, constant_1, { suspension_id = r.suspension_id })
        r.suspension_id = c0
        change(T.ff_signal, pk, s, u)
      end
    end
    return { 1 }
  end,
}
