-- declare_task(namespace, name, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        namespace = required(a[2], 'namespace'),
        name = required(a[3], 'name'),
        fingerprint = required(a[4], 'fingerprint'),
        task_version = required(a[5], 'task_version'),
        quota_policy_id = a[6],
        declared_at_ms = required(a[9], 'declared_at_ms'),
        registered_at_ms = required(now(), 'registered_at_ms'),
        changed_at_ms = required(now(), 'changed_at_ms'),
        last_seen_ms = required(now(), 'last_seen_ms'),
        head = required(a[7], 'head'),
        declaration = required(a[8], 'declaration'),
      }
      local pk = word(row.namespace) .. word(row.name)
      n = insert(T.ff_task, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
