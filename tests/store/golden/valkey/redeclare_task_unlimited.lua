-- redeclare_task_unlimited(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms, old_quota_policy_id)
local constant_0 = { 'fingerprint', 'task_version', 'quota_policy_id', 'head', 'declaration', 'declared_at_ms', 'changed_at_ms', 'last_seen_ms', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_task, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(a[5], 'fingerprint')
      local c1 = required(a[6], 'task_version')
      local c2 = a[7]
      local c3 = required(a[8], 'head')
      local c4 = required(a[9], 'declaration')
      local c5 = required(a[10], 'declared_at_ms')
      local c6 = required(time, 'changed_at_ms')
      local c7 = required(time, 'last_seen_ms')
      local c8 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.fingerprint ~= c0 then k = k + 2 s[k - 1], s[k] = 'GsO', c0 end
      if r.task_version ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'fd7' else k = k + 2 s[k - 1], s[k] = 'fd7', c1 end end
      if r.quota_policy_id ~= c2 then if c2 == nil then j = j + 1 u[j] = 's1f' else k = k + 2 s[k - 1], s[k] = 's1f', c2 end end
      if r.head ~= c3 then k = k + 2 s[k - 1], s[k] = 'cc8', c3 end
      if r.declaration ~= c4 then k = k + 2 s[k - 1], s[k] = '01j', c4 end
      if r.declared_at_ms ~= c5 then k = k + 2 s[k - 1], s[k] = 'emh', c5 end
      if r.changed_at_ms ~= c6 then k = k + 2 s[k - 1], s[k] = '83r', c6 end
      if r.last_seen_ms ~= c7 then k = k + 2 s[k - 1], s[k] = 'lE6', c7 end
      if r.version ~= c8 then if c8 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c8 end end
      note_change(T.ff_task, pk, r, constant_0, { fingerprint = r.fingerprint, task_version = r.task_version, quota_policy_id = r.quota_policy_id, head = r.head, declaration = r.declaration, declared_at_ms = r.declared_at_ms, changed_at_ms = r.changed_at_ms, last_seen_ms = r.last_seen_ms, version = r.version })
      r.fingerprint = c0
      r.task_version = c1
      r.quota_policy_id = c2
      r.head = c3
      r.declaration = c4
      r.declared_at_ms = c5
      r.changed_at_ms = c6
      r.last_seen_ms = c7
      r.version = c8
      change(T.ff_task, pk, s, u)
      n = r
    end
    do
      local pk = word('task') .. word(a[3]) .. word('quota') .. uuid(a[11])
      local r = a[3] ~= nil and a[11] ~= nil and fetch(T.ff_limit_scope, pk)
      if r then
        erase(T.ff_limit_scope, pk)
      end
    end
    wake('limits', '', '', '')
    return { 1 }
  end,
}
