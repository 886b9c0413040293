-- create_budget(budget_id, namespace, policy_json, scope_type, scope_id, enforcement_mode, next_reset_at_ms, created_at_ms, updated_at_ms)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_budget_id = required(a[2], 'budget_id')
      local v_namespace = required(a[3], 'namespace')
      local v_policy_json = required(a[4], 'policy_json')
      local v_scope_type = required(a[5], 'scope_type')
      local v_scope_id = required(a[6], 'scope_id')
      local v_enforcement_mode = required(a[7], 'enforcement_mode')
      local v_next_reset_at_ms = a[8]
      local v_created_at_ms = required(a[9], 'created_at_ms')
      local v_updated_at_ms = required(a[10], 'updated_at_ms')
      local pk = uuid(v_budget_id)
      if exists(T.ff_budget_policy, pk) then refuse(0) end
      local h0, o0
      if v_next_reset_at_ms ~= nil then h0, o0 = '', int(v_next_reset_at_ms) .. uuid(v_budget_id) .. pk end
      local s, k = { 'Qyy', v_budget_id, 'IY9', v_policy_json, 'yVc', v_created_at_ms, '23j', v_updated_at_ms }, 8
      if v_namespace ~= 'default' then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_scope_type ~= '' then k = k + 2 s[k - 1], s[k] = '684', v_scope_type end
      if v_scope_id ~= '' then k = k + 2 s[k - 1], s[k] = 'v93', v_scope_id end
      if v_enforcement_mode ~= '' then k = k + 2 s[k - 1], s[k] = '6QW', v_enforcement_mode end
      if v_next_reset_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'R6O', v_next_reset_at_ms end
      make(T.ff_budget_policy, pk, s)
      if o0 then add(I.budget_resets, h0, o0) end
    end
    wake('budget_resets', '', '', a[8])
    return { 1 }
  end,
}
