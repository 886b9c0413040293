-- owe_cancel_member(partition_key, flow_id, execution_id)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_execution_id = required(a[4], 'execution_id')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. word(v_execution_id)
      if exists(T.ff_cancel_backlog_member, pk) then refuse(0) end
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, '6Pr', v_execution_id }, 6
      make(T.ff_cancel_backlog_member, pk, s)
    end
    return { 1 }
  end,
}
