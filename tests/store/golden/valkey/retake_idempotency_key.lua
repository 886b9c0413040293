-- retake_idempotency_key(namespace, idempotency_key, holder, holder_partition, partition_key, execution_id, expires_at_ms, digest)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_idempotency, pk)
      if not (r and (r.expires_at_ms == nil or up_to(r.expires_at_ms, now())) and same(r.execution_id, a[4]) and not (function() local found = {} if a[5] ~= nil and a[4] ~= nil then local pk = int(a[5]) .. uuid(a[4]) local r = fetch(T.ff_exec_core, pk) if r and same(r.partition_key, a[5]) and same(r.execution_id, a[4]) and same(r.namespace, a[2]) and same(r.idempotency_key, a[3]) then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[6], 'partition_key')
      local c1 = required(a[7], 'execution_id')
      local c2 = a[8]
      local c3 = a[9]
      w.partition_key = c0
      w.execution_id = c1
      w.expires_at_ms = c2
      w.digest = c3
      put(T.ff_idempotency, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
