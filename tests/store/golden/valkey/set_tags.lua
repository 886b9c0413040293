-- set_tags(partition_key, execution_id, version, tags, instance_tag)
local constant_0 = { 'version', 'last_mutation_at', 'tags', 'instance_tag' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = required(a[5], 'tags')
      local c3 = a[6]
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.tags ~= c2 then if c2 == '{}' then j = j + 1 u[j] = 'qOK' else k = k + 2 s[k - 1], s[k] = 'qOK', c2 end end
      if r.instance_tag ~= c3 then if c3 == nil then j = j + 1 u[j] = '9zg' else k = k + 2 s[k - 1], s[k] = '9zg', c3 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, tags = r.tags, instance_tag = r.instance_tag })
      r.version = c0
      r.last_mutation_at = c1
      r.tags = c2
      r.instance_tag = c3
      change(T.ff_exec_core, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
