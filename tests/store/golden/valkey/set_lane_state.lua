-- set_lane_state(lane_id, state)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2])
      local r = fetch(T.ff_lane_registry, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(a[3], 'state')
      local c1 = required(now(), 'updated_at_ms')
      w.state = c0
      w.updated_at_ms = c1
      put(T.ff_lane_registry, pk, w)
      n = w
    end
    wake('ready', 's', a[2], '')
    return row_answer(0, {  })
  end,
}
