-- give_input(partition_key, execution_id, version, payload)
local constant_0 = { 'version', 'last_mutation_at', 'payload' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended')) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = a[5]
      local s, k, u, j = {}, 0, {}, 0
      local l, kl, m, jl = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if c2 == nil then jl = jl + 1 m[jl] = 'tyj' else kl = kl + 2 l[kl - 1], l[kl] = 'tyj', c2 end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, payload = large_value(T.ff_exec_core, pk, 'payload') })
      r.version = c0
      r.last_mutation_at = c1
      r.payload = c2
      change(T.ff_exec_core, pk, s, u, l, m)
      n = r
    end
    return { 1 }
  end,
}
