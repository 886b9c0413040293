-- set_tags(partition_key, execution_id, version, tags, instance_tag)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = required(a[5], 'tags')
      local c3 = a[6]
      w.version = c0
      w.last_mutation_at = c1
      w.tags = c2
      w.instance_tag = c3
      put(T.ff_exec_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
