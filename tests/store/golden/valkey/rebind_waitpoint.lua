-- rebind_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema)
local constant_0 = { 'state', 'activated_at_ms', 'suspension_id', 'required_signal_names', 'token_kid', 'token_digest', 'created_at_ms', 'expires_at_ms', 'waitpoint_key', 'attempt_index', 'payload_schema', 'last_signal_at_ms', 'satisfied_at_ms', 'closed_at_ms', 'close_reason', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_waitpoint_pending, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c1 = a[5]
      local c2 = a[6]
      local c3 = required(a[7], 'required_signal_names')
      local c4 = required(a[8], 'token_kid')
      local c5 = required(a[9], 'token_digest')
      local c6 = required(a[10], 'created_at_ms')
      local c7 = a[11]
      local c8 = required(a[12], 'waitpoint_key')
      local c9 = required(a[13], 'attempt_index')
      local c10 = a[14]
      local c15 = required(plus(r.version, '1'), 'version')
      local g0, m0
      if r.state == 'pending' and r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. pk end
      local g1, m1
      if (r.state == 'pending' or r.state == 'active') then g1, m1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.state ~= 'active' then k = k + 2 s[k - 1], s[k] = 'X27', 'active' end
      if r.activated_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'qIj' else k = k + 2 s[k - 1], s[k] = 'qIj', c1 end end
      if r.suspension_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 'OA3' else k = k + 2 s[k - 1], s[k] = 'OA3', c2 end end
      if r.required_signal_names ~= c3 then if c3 == '[]' then j = j + 1 u[j] = 'iM8' else k = k + 2 s[k - 1], s[k] = 'iM8', c3 end end
      if r.token_kid ~= c4 then k = k + 2 s[k - 1], s[k] = 'YeM', c4 end
      if r.token_digest ~= c5 then k = k + 2 s[k - 1], s[k] = 'itU', c5 end
      if r.created_at_ms ~= c6 then k = k + 2 s[k - 1], s[k] = 'yVc', c6 end
      if r.expires_at_ms ~= c7 then if c7 == nil then j = j + 1 u[j] = 'tP9' else k = k + 2 s[k - 1], s[k] = 'tP9', c7 end end
      if r.waitpoint_key ~= c8 then if c8 == '' then j = j + 1 u[j] = 'MCh' else k = k + 2 s[k - 1], s[k] = 'MCh', c8 end end
      if r.attempt_index ~= c9 then if c9 == '0' then j = j + 1 u[j] = 'oxR' else k = k + 2 s[k - 1], s[k] = 'oxR', c9 end end
      if r.payload_schema ~= c10 then if c10 == nil then j = j + 1 u[j] = 'l1t' else k = k + 2 s[k - 1], s[k] = 'l1t', c10 end end
      if r.last_signal_at_ms ~= nil then j = j + 1 u[j] = '2Zl' end
      if r.satisfied_at_ms ~= nil then j = j + 1 u[j] = '6De' end
      if r.closed_at_ms ~= nil then j = j + 1 u[j] = 't4h' end
      if r.close_reason ~= nil then j = j + 1 u[j] = 'tLj' end
      if r.version ~= c15 then if c15 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c15 end end
      note_change(T.ff_waitpoint_pending, pk, r, constant_0, { state = r.state, activated_at_ms = r.activated_at_ms, suspension_id = r.suspension_id, required_signal_names = r.required_signal_names, token_kid = r.token_kid, token_digest = r.token_digest, created_at_ms = r.created_at_ms, expires_at_ms = r.expires_at_ms, waitpoint_key = r.waitpoint_key, attempt_index = r.attempt_index, payload_schema = r.payload_schema, last_signal_at_ms = r.last_signal_at_ms, satisfied_at_ms = r.satisfied_at_ms, closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
      r.state = 'active'
      r.activated_at_ms = c1
      r.suspension_id = c2
      r.required_signal_names = c3
      r.token_kid = c4
      r.token_digest = c5
      r.created_at_ms = c6
      r.expires_at_ms = c7
      r.waitpoint_key = c8
      r.attempt_index = c9
      r.payload_schema = c10
      r.last_signal_at_ms = nil
      r.satisfied_at_ms = nil
      r.closed_at_ms = nil
      r.close_reason = nil
      r.version = c15
      local h1, o1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk
      change(T.ff_waitpoint_pending, pk, s, u)
      if m0 then remove(I.waitpoint_expiry, g0, m0) end
      move(I.open_waitpoints, g1, m1, h1, o1)
      n = r
    end
    return { 1 }
  end,
}
