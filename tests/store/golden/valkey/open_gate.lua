-- open_gate(lane_id, namespace, gate, quota_policy_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        lane_id = required(a[2], 'lane_id'),
        namespace = required(a[3], 'namespace'),
        gate = required(a[4], 'gate'),
        quota_policy_id = a[5],
      }
      local pk = word(row.lane_id) .. word(row.namespace) .. word(row.gate)
      n = insert(T.ff_lane_gate, pk, row, 0)
    end
    wake('gates', 's', a[2], '')
    return row_answer(0, {  })
  end,
}
