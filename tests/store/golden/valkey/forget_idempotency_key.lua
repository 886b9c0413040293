-- forget_idempotency_key(namespace, idempotency_key, now, execution_id, partition_key)
local function is_met_0(r, a, b, n, time) return r and same(r.namespace, a[2]) and same(r.idempotency_key, a[3]) end
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3])
    local r = fetch(T.ff_idempotency, pk)
    if not (r and up_to(r.expires_at_ms, a[4]) and same(r.execution_id, a[5]) and not (a[6] ~= nil and a[5] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[6]) .. uuid(a[5])), a, b, n, time))) then refuse(0) end
    b, n = r, r
    erase(T.ff_idempotency, pk)
    return { 1 }
  end,
}
