-- redeclare_task(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)
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
    return row_answer(0, {  })
  end,
}
