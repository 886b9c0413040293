-- set_quota_active(quota_policy_id, was, active)
local constant_0 = { 'active_concurrency' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_quota_policy, pk)
      if not (r and same(r.active_concurrency, a[3])) then refuse(0) end
      local c0 = required(a[4], 'active_concurrency')
      local s, k, u, j = {}, 0, {}, 0
      if r.active_concurrency ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'HIO' else k = k + 2 s[k - 1], s[k] = 'HIO', c0 end end
      note_change(T.ff_quota_policy, pk, r, constant_0, { active_concurrency = r.active_concurrency })
      r.active_concurrency = c0
      change(T.ff_quota_policy, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
