-- create_budget(budget_id, namespace, policy_json, scope_type, scope_id, enforcement_mode, next_reset_at_ms, created_at_ms, updated_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        budget_id = required(a[2], 'budget_id'),
        namespace = required(a[3], 'namespace'),
        policy_json = required(a[4], 'policy_json'),
        scope_type = required(a[5], 'scope_type'),
        scope_id = required(a[6], 'scope_id'),
        enforcement_mode = required(a[7], 'enforcement_mode'),
        next_reset_at_ms = a[8],
        created_at_ms = required(a[9], 'created_at_ms'),
        updated_at_ms = required(a[10], 'updated_at_ms'),
      }
      local pk = uuid(row.budget_id)
      n = insert(T.ff_budget_policy, pk, row, 0)
    end
    do local at = a[8] if at then wake('budget_resets', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
