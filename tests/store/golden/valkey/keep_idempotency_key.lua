-- keep_idempotency_key(namespace, idempotency_key, now, execution_id, partition_key)
local function is_met_0(r, a, b, n, time) return r and same(r.namespace, a[2]) and same(r.idempotency_key, a[3]) end
local constant_1 = { 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_idempotency, pk)
      if not (r and up_to(r.expires_at_ms, a[4]) and same(r.execution_id, a[5]) and (a[6] ~= nil and a[5] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[6]) .. uuid(a[5])), a, b, n, time))) then refuse(0) end
      local g0, m0
      if r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.idempotency_key) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.expires_at_ms ~= nil then j = j + 1 u[j] = 'tP9' end
      note_change(T.ff_idempotency, pk, r, constant_1, { expires_at_ms = r.expires_at_ms })
      r.expires_at_ms = nil
      change(T.ff_idempotency, pk, s, u)
      if m0 then remove(I.idempotency, g0, m0) end
      n = r
    end
    return { 1 }
  end,
}
