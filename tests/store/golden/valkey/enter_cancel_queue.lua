-- enter_cancel_queue(partition_key, flow_id, downstream_eid, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        downstream_eid = required(a[4], 'downstream_eid'),
        enqueued_at_ms = required(a[5], 'enqueued_at_ms'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. uuid(row.downstream_eid)
      n = insert(T.ff_pending_cancel_groups, pk, row, 0)
    end
    do local at = a[5] if at then wake('cancel_groups', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
