-- forget_task(namespace, name, version, old_quota_policy_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_task, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b, n = r, r
      put(T.ff_task, pk, false)
    end
    do
      local found = {}
      if 'task' ~= nil and a[3] ~= nil and 'quota' ~= nil and a[5] ~= nil then
        local pk = word('task') .. word(a[3]) .. word('quota') .. uuid(a[5])
        local r = fetch(T.ff_limit_scope, pk)
        if r and same(r.scope_type, 'task') and same(r.scope_id, a[3]) and same(r.kind, 'quota') and same(r.limit_id, a[5]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_limit_scope, pk, false) end
    end
    wake('limits', '', nil, '')
    return row_answer(0, {  })
  end,
}
