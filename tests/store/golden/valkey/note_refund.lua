-- note_refund(quota_policy_id)
local constant_0 = { 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      note_change(T.ff_quota_policy, pk, r, constant_0, { version = r.version })
      r.version = c0
      change(T.ff_quota_policy, pk, s, u)
      n = r
    end
    wake('quotas', '', '', '')
    return { 1 }
  end,
}
