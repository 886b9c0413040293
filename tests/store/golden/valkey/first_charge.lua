-- first_charge(partition_key, execution_id, budget_id, dimension, by)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_dimensions_key = required(a[5], 'dimensions_key')
      local v_budget_id = required(a[4], 'budget_id')
      local v_delta_total = required(a[6], 'delta_total')
      local v_updated_at_ms = required(time, 'updated_at_ms')
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. word(v_dimensions_key) .. uuid(v_budget_id)
      if exists(T.ff_budget_usage_by_exec, pk) then refuse(0) end
      local h0, o0 = uuid(v_budget_id), int(v_partition_key) .. uuid(v_execution_id) .. word(v_dimensions_key) .. pk
      local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'qKF', v_dimensions_key, 'Qyy', v_budget_id }, 8
      if v_delta_total ~= '0' then k = k + 2 s[k - 1], s[k] = 'UY0', v_delta_total end
      if v_updated_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = '23j', v_updated_at_ms end
      make(T.ff_budget_usage_by_exec, pk, s)
      add(I.ledger_of_budget, h0, o0)
    end
    return { 1 }
  end,
}
