-- touch_edge_group(partition_key, flow_id, downstream_eid, version)
local constant_0 = { 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      note_change(T.ff_edge_group, pk, r, constant_0, { version = r.version })
      r.version = c0
      change(T.ff_edge_group, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
