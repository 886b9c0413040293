-- redeclare_task_limited(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms, old_quota_policy_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_task, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[5], 'fingerprint')
      local c1 = required(a[6], 'task_version')
      local c2 = a[7]
      local c3 = required(a[8], 'head')
      local c4 = required(a[9], 'declaration')
      local c5 = required(a[10], 'declared_at_ms')
      local c6 = required(now(), 'changed_at_ms')
      local c7 = required(now(), 'last_seen_ms')
      local c8 = required(plus(r.version, '1'), 'version')
      w.fingerprint = c0
      w.task_version = c1
      w.quota_policy_id = c2
      w.head = c3
      w.declaration = c4
      w.declared_at_ms = c5
      w.changed_at_ms = c6
      w.last_seen_ms = c7
      w.version = c8
      put(T.ff_task, pk, w)
      n = w
    end
    do
      local found = {}
      if 'task' ~= nil and a[3] ~= nil and 'quota' ~= nil and a[11] ~= nil then
        local pk = word('task') .. word(a[3]) .. word('quota') .. uuid(a[11])
        local r = fetch(T.ff_limit_scope, pk)
        if r and same(r.scope_type, 'task') and same(r.scope_id, a[3]) and same(r.kind, 'quota') and same(r.limit_id, a[11]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_limit_scope, pk, false) end
    end
    do
      local row = {
        scope_type = required('task', 'scope_type'),
        scope_id = required(a[3], 'scope_id'),
        kind = required('quota', 'kind'),
        limit_id = required(a[7], 'limit_id'),
        attached_at_ms = required(now(), 'attached_at_ms'),
        namespace = required(a[2], 'namespace'),
      }
      local pk = word(row.scope_type) .. word(row.scope_id) .. word(row.kind) .. uuid(row.limit_id)
      local r = fetch(T.ff_limit_scope, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(now(), 'attached_at_ms')
        w.attached_at_ms = c0
        put(T.ff_limit_scope, pk, w)
      else
        insert(T.ff_limit_scope, pk, row, 2)
      end
    end
    wake('limits', '', nil, '')
    return row_answer(0, {  })
  end,
}
