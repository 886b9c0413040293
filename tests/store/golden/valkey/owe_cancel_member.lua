-- owe_cancel_member(partition_key, flow_id, execution_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        execution_id = required(a[4], 'execution_id'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id) .. word(row.execution_id)
      n = insert(T.ff_cancel_backlog_member, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
