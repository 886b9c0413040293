-- admit(quota_policy_id, execution_id, dimension, execution_uuid)
local constant_0 = { 'dimension' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_quota_policy_id = required(a[2], 'quota_policy_id')
      local v_execution_id = required(a[3], 'execution_id')
      local v_admitted_at_ms = required(time, 'admitted_at_ms')
      local pk = uuid(v_quota_policy_id) .. word(v_execution_id)
      if exists(T.ff_quota_admitted, pk) then refuse(0) end
      local s, k = { 's1f', v_quota_policy_id, '6Pr', v_execution_id, 'AWV', v_admitted_at_ms }, 6
      make(T.ff_quota_admitted, pk, s)
    end
    do
      local v_quota_policy_id = required(a[2], 'quota_policy_id')
      local v_dimension = required(a[4], 'dimension')
      local v_admitted_at_ms = required(time, 'admitted_at_ms')
      local v_execution_id = required(a[5], 'execution_id')
      local pk = uuid(v_quota_policy_id) .. word(v_dimension) .. int(v_admitted_at_ms) .. uuid(v_execution_id)
      local r = fetch(T.ff_quota_window, pk)
      if r then
        local c0 = required(a[4], 'dimension')
        local s, k, u, j = {}, 0, {}, 0
        if r.dimension ~= c0 then k = k + 2 s[k - 1], s[k] = 'yzI', c0 end
        note_change(T.ff_quota_window, pk, r, constant_0, { dimension = r.dimension })
        r.dimension = c0
        change(T.ff_quota_window, pk, s, u)
      else
        if exists(T.ff_quota_window, pk) then refuse(1) end
        local s, k = { 's1f', v_quota_policy_id, 'yzI', v_dimension, 'AWV', v_admitted_at_ms, '6Pr', v_execution_id }, 8
        make(T.ff_quota_window, pk, s)
      end
    end
    return { 1 }
  end,
}
