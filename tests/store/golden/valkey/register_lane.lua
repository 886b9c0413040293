-- register_lane(lane_id, registered_by)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        lane_id = required(a[2], 'lane_id'),
        registered_at_ms = required(now(), 'registered_at_ms'),
        registered_by = required(a[3], 'registered_by'),
        state = required('active', 'state'),
        updated_at_ms = required(now(), 'updated_at_ms'),
      }
      local pk = word(row.lane_id)
      n = insert(T.ff_lane_registry, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
