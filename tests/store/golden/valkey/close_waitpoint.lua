-- close_waitpoint(partition_key, waitpoint_id, version, reason)
local constant_0 = { 'state', 'closed_at_ms', 'close_reason', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_waitpoint_pending, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c1 = time
      local c2 = a[5]
      local c3 = required(plus(r.version, '1'), 'version')
      local g0, m0
      if r.state == 'pending' and r.expires_at_ms ~= nil then g0, m0 = '', int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. pk end
      local g1, m1
      if (r.state == 'pending' or r.state == 'active') then g1, m1 = '', int(r.created_at_ms) .. uuid(r.waitpoint_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.state ~= 'closed' then k = k + 2 s[k - 1], s[k] = 'X27', 'closed' end
      if r.closed_at_ms ~= c1 then if c1 == nil then j = j + 1 u[j] = 't4h' else k = k + 2 s[k - 1], s[k] = 't4h', c1 end end
      if r.close_reason ~= c2 then if c2 == nil then j = j + 1 u[j] = 'tLj' else k = k + 2 s[k - 1], s[k] = 'tLj', c2 end end
      if r.version ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c3 end end
      note_change(T.ff_waitpoint_pending, pk, r, constant_0, { state = r.state, closed_at_ms = r.closed_at_ms, close_reason = r.close_reason, version = r.version })
      r.state = 'closed'
      r.closed_at_ms = c1
      r.close_reason = c2
      r.version = c3
      change(T.ff_waitpoint_pending, pk, s, u)
      if m0 then remove(I.waitpoint_expiry, g0, m0) end
      if m1 then remove(I.open_waitpoints, g1, m1) end
      n = r
    end
    return { 1 }
  end,
}
