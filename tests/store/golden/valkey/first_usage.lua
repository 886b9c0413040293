-- first_usage(budget_id, dimension, by)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_budget_id = required(a[2], 'budget_id')
      local v_dimensions_key = required(a[3], 'dimensions_key')
      local v_current_value = required(a[4], 'current_value')
      local v_updated_at_ms = required(time, 'updated_at_ms')
      local pk = uuid(v_budget_id) .. word(v_dimensions_key)
      if exists(T.ff_budget_usage, pk) then refuse(0) end
      local s, k = { 'Qyy', v_budget_id, 'qKF', v_dimensions_key }, 4
      if v_current_value ~= '0' then k = k + 2 s[k - 1], s[k] = 'Yw5', v_current_value end
      if v_updated_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = '23j', v_updated_at_ms end
      make(T.ff_budget_usage, pk, s)
    end
    return { 1 }
  end,
}
