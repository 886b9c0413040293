-- erase_lane_gate(lane_id, namespace, gate)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3]) .. word(a[4])
    local r = fetch(T.ff_lane_gate, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_lane_gate, pk)
    return { 1 }
  end,
}
