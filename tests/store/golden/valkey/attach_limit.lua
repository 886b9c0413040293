-- attach_limit(scope_type, scope_id, kind, limit_id, namespace)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        scope_type = required(a[2], 'scope_type'),
        scope_id = required(a[3], 'scope_id'),
        kind = required(a[4], 'kind'),
        limit_id = required(a[5], 'limit_id'),
        attached_at_ms = required(now(), 'attached_at_ms'),
        namespace = required(a[6], 'namespace'),
      }
      local pk = word(row.scope_type) .. word(row.scope_id) .. word(row.kind) .. uuid(row.limit_id)
      n = insert(T.ff_limit_scope, pk, row, 0)
    end
    wake('limits', '', nil, '')
    return row_answer(0, {  })
  end,
}
