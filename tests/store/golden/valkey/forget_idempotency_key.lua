-- forget_idempotency_key(namespace, idempotency_key, now, execution_id, partition_key)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_idempotency, pk)
      if not (r and up_to(r.expires_at_ms, a[4]) and same(r.execution_id, a[5]) and not (function() local found = {} if a[6] ~= nil and a[5] ~= nil then local pk = int(a[6]) .. uuid(a[5]) local r = fetch(T.ff_exec_core, pk) if r and same(r.partition_key, a[6]) and same(r.execution_id, a[5]) and same(r.namespace, a[2]) and same(r.idempotency_key, a[3]) then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      b, n = r, r
      put(T.ff_idempotency, pk, false)
    end
    return row_answer(0, {  })
  end,
}
