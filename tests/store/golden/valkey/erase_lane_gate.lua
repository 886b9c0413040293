-- erase_lane_gate(lane_id, namespace, gate)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3]) .. word(a[4])
      local r = fetch(T.ff_lane_gate, pk)
      if not (r) then refuse(0) end
      b, n = r, r
      put(T.ff_lane_gate, pk, false)
    end
    return row_answer(0, {  })
  end,
}
