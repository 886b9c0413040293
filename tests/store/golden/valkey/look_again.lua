-- look_again(partition_key, execution_id, suspension_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.current_suspension_id, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      w.version = c0
      w.last_mutation_at = c1
      put(T.ff_exec_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
