-- enter_cancel_queue(partition_key, flow_id, downstream_eid, now)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_downstream_eid = required(a[4], 'downstream_eid')
      local v_enqueued_at_ms = required(a[5], 'enqueued_at_ms')
      local pk = int(v_partition_key) .. uuid(v_flow_id) .. uuid(v_downstream_eid)
      if exists(T.ff_pending_cancel_groups, pk) then refuse(0) end
      local h0, o0 = '', int(v_enqueued_at_ms) .. uuid(v_flow_id) .. uuid(v_downstream_eid) .. pk
      local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'zje', v_downstream_eid, 'N2S', v_enqueued_at_ms }, 8
      make(T.ff_pending_cancel_groups, pk, s)
      add(I.cancel_groups, h0, o0)
    end
    wake('cancel_groups', '', '', a[5])
    return { 1 }
  end,
}
