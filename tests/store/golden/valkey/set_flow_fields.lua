-- set_flow_fields(partition_key, flow_id, version, raw_fields)
local constant_0 = { 'version', 'raw_fields' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[5], 'raw_fields')
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.raw_fields ~= c1 then if c1 == '{}' then j = j + 1 u[j] = 'Wpu' else k = k + 2 s[k - 1], s[k] = 'Wpu', c1 end end
      note_change(T.ff_flow_core, pk, r, constant_0, { version = r.version, raw_fields = r.raw_fields })
      r.version = c0
      r.raw_fields = c1
      change(T.ff_flow_core, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
