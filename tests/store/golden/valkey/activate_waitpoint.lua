-- activate_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, expires_at_ms)
local constant_0 = { 'state', 'activated_at_ms', 'suspension_id', 'required_signal_names', 'expires_at_ms', 'version' }
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
      local c4 = a[8]
      local c5 = required(plus(r.version, '1'), 'version')
      local g0, m0
      if r.state == 'pending' and r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. pk end
      local g1, m1
      if (r.state == 'pending' or r.state == 'active') then g1, m1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.state ~= 'active' then k = k + 2 s[k - 1], s[k] = 'X27', 'active' end
      if r.activated_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 'qIj' else k = k + 2 s[k - 1], s[k] = 'qIj', c1 end end
      if r.suspension_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 'OA3' else k = k + 2 s[k - 1], s[k] = 'OA3', c2 end end
      if r.required_signal_names ~= c3 then if c3 == '[]' then j = j + 1 u[j] = 'iM8' else k = k + 2 s[k - 1], s[k] = 'iM8', c3 end end
      if r.expires_at_ms ~= c4 then if c4 == nil then j = j + 1 u[j] = 'tP9' else k = k + 2 s[k - 1], s[k] = 'tP9', c4 end end
      if r.version ~= c5 then if c5 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c5 end end
      note_change(T.ff_waitpoint_pending, pk, r, constant_0, { state = r.state, activated_at_ms = r.activated_at_ms, suspension_id = r.suspension_id, required_signal_names = r.required_signal_names, expires_at_ms = r.expires_at_ms, version = r.version })
      r.state = 'active'
      r.activated_at_ms = c1
      r.suspension_id = c2
      r.required_signal_names = c3
      r.expires_at_ms = c4
      r.version = c5
      local h1, o1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk
      change(T.ff_waitpoint_pending, pk, s, u)
      if m0 then remove(I.waitpoint_expiry, g0, m0) end
      move(I.open_waitpoints, g1, m1, h1, o1)
      n = r
    end
    return { 1 }
  end,
}
