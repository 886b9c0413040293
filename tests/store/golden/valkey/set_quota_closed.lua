-- set_quota_closed(quota_policy_id, until_ms)
local constant_0 = { 'version', 'updated_at_ms', 'closed_until_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'updated_at_ms')
      local c2 = a[3]
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.updated_at_ms ~= c1 then k = k + 2 s[k - 1], s[k] = '23j', c1 end
      if r.closed_until_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'wy0' else k = k + 2 s[k - 1], s[k] = 'wy0', c2 end end
      note_change(T.ff_quota_policy, pk, r, constant_0, { version = r.version, updated_at_ms = r.updated_at_ms, closed_until_ms = r.closed_until_ms })
      r.version = c0
      r.updated_at_ms = c1
      r.closed_until_ms = c2
      change(T.ff_quota_policy, pk, s, u)
      n = r
    end
    wake('quotas', '', '', '')
    return { 1 }
  end,
}
