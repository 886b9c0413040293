-- add_member(partition_key, flow_id, version, raw_fields, execution_id, member_version, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(plus(r.graph_revision, '1'), 'graph_revision')
      local c2 = required(a[5], 'raw_fields')
      local c3 = nil
      w.version = c0
      w.graph_revision = c1
      w.raw_fields = c2
      w.settled_at_ms = c3
      put(T.ff_flow_core, pk, w)
      n = w
    end
    do
      local pk = int(a[2]) .. uuid(a[6])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[7])) then refuse(1) end
      local w
      w = copy(r)
      local c0 = a[3]
      local c1 = required(plus(r.version, '1'), 'version')
      local c2 = required(a[8], 'last_mutation_at')
      w.flow_id = c0
      w.version = c1
      w.last_mutation_at = c2
      put(T.ff_exec_core, pk, w)
    end
    return row_answer(0, {  })
  end,
}
