-- register_lane(lane_id, registered_by)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_lane_id = required(a[2], 'lane_id')
      local v_registered_at_ms = required(time, 'registered_at_ms')
      local v_registered_by = required(a[3], 'registered_by')
      local v_updated_at_ms = required(time, 'updated_at_ms')
      local pk = word(v_lane_id)
      if exists(T.ff_lane_registry, pk) then refuse(0) end
      local s, k = { 'tbW', v_lane_id, '09o', v_registered_at_ms, 'Rr4', v_registered_by }, 6
      if v_updated_at_ms ~= '0' then k = k + 2 s[k - 1], s[k] = '23j', v_updated_at_ms end
      make(T.ff_lane_registry, pk, s)
    end
    return { 1 }
  end,
}
