-- give_input(partition_key, execution_id, version, payload)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = a[5]
      w.version = c0
      w.last_mutation_at = c1
      w.payload = c2
      w['\1payload'] = c2 == nil
      put(T.ff_exec_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
