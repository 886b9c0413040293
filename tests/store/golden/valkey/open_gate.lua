-- open_gate(lane_id, namespace, gate, quota_policy_id)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_lane_id = required(a[2], 'lane_id')
      local v_namespace = required(a[3], 'namespace')
      local v_gate = required(a[4], 'gate')
      local v_quota_policy_id = a[5]
      local pk = word(v_lane_id) .. word(v_namespace) .. word(v_gate)
      if exists(T.ff_lane_gate, pk) then refuse(0) end
      local s, k = { 'tbW', v_lane_id, 'CG9', v_namespace, 'SZK', v_gate }, 6
      if v_quota_policy_id ~= nil then k = k + 2 s[k - 1], s[k] = 's1f', v_quota_policy_id end
      make(T.ff_lane_gate, pk, s)
    end
    wake('gates', 's', a[2], '')
    return { 1 }
  end,
}
