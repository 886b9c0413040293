-- attach_limit(scope_type, scope_id, kind, limit_id, namespace)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_scope_type = required(a[2], 'scope_type')
      local v_scope_id = required(a[3], 'scope_id')
      local v_kind = required(a[4], 'kind')
      local v_limit_id = required(a[5], 'limit_id')
      local v_attached_at_ms = required(time, 'attached_at_ms')
      local v_namespace = required(a[6], 'namespace')
      local pk = word(v_scope_type) .. word(v_scope_id) .. word(v_kind) .. uuid(v_limit_id)
      if exists(T.ff_limit_scope, pk) then refuse(0) end
      local s, k = { '684', v_scope_type, 'v93', v_scope_id, 'jRq', v_kind, 'YHj', v_limit_id, 'kFy', v_attached_at_ms }, 10
      if v_namespace ~= 'default' then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      make(T.ff_limit_scope, pk, s)
    end
    wake('limits', '', '', '')
    return { 1 }
  end,
}
