-- retake_idempotency_key(namespace, idempotency_key, holder, holder_partition, partition_key, execution_id, expires_at_ms, digest)
local function is_met_0(r, a, b, n, time) return r and same(r.namespace, a[2]) and same(r.idempotency_key, a[3]) end
local constant_1 = { 'partition_key', 'execution_id', 'expires_at_ms', 'digest' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_idempotency, pk)
      if not (r and (r.expires_at_ms == nil or up_to(r.expires_at_ms, time)) and same(r.execution_id, a[4]) and not (a[5] ~= nil and a[4] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[5]) .. uuid(a[4])), a, b, n, time))) then refuse(0) end
      local c0 = required(a[6], 'partition_key')
      local c1 = required(a[7], 'execution_id')
      local c2 = a[8]
      local c3 = a[9]
      local g0, m0
      if r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.idempotency_key) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.partition_key ~= c0 then k = k + 2 s[k - 1], s[k] = 'WYb', c0 end
      if r.execution_id ~= c1 then k = k + 2 s[k - 1], s[k] = '6Pr', c1 end
      if r.expires_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'tP9' else k = k + 2 s[k - 1], s[k] = 'tP9', c2 end end
      if r.digest ~= c3 then if c3 == nil then j = j + 1 u[j] = 'slg' else k = k + 2 s[k - 1], s[k] = 'slg', c3 end end
      note_change(T.ff_idempotency, pk, r, constant_1, { partition_key = r.partition_key, execution_id = r.execution_id, expires_at_ms = r.expires_at_ms, digest = r.digest })
      r.partition_key = c0
      r.execution_id = c1
      r.expires_at_ms = c2
      r.digest = c3
      local h0, o0
      if r.expires_at_ms ~= nil then h0, o0 = '', int(r.expires_at_ms) .. word(r.namespace) .. word(r.idempotency_key) .. pk end
      change(T.ff_idempotency, pk, s, u)
      move(I.idempotency, g0, m0, h0, o0)
      n = r
    end
    return { 1 }
  end,
}
