-- job_delete_execution(partition_key, execution_id, version, wire_id, now, job_id, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and not (function() local found = {} if a[2] ~= nil and a[3] ~= nil then each_row(I.edges_out, int(a[2]) .. uuid(a[3]), nil, nil, false, function(pk, r) if same(r.partition_key, a[2]) and same(r.upstream_eid, a[3]) and same(r.dep_state, 'unsatisfied') then found[#found + 1] = pk return true end end) end return #found > 0 end)()) then refuse(0) end
      b, n = r, r
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_of_table(T.ff_attempt, int(b.partition_key) .. uuid(b.execution_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_attempt, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          local pk = int(b.partition_key) .. uuid(b.execution_id)
          local r = fetch(T.ff_claim_grant, pk)
          if r and same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end
        end
        for _, pk in ipairs(found) do put(T.ff_claim_grant, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          local pk = int(b.partition_key) .. uuid(b.execution_id)
          local r = fetch(T.ff_suspension_current, pk)
          if r and same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end
        end
        for _, pk in ipairs(found) do put(T.ff_suspension_current, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_row(I.waitpoints_of, int(b.partition_key) .. uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_waitpoint_pending, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_row(I.signals_of, int(b.partition_key) .. uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_signal, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_row(I.signal_dedup_of, int(b.partition_key) .. uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_signal_dedup, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_row(I.suspend_dedup_of, int(b.partition_key) .. uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_suspend_dedup, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_of_table(T.ff_budget_usage_by_exec, int(b.partition_key) .. uuid(b.execution_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_budget_usage_by_exec, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_of_table(T.ff_stream_meta, int(b.partition_key) .. uuid(b.execution_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_stream_meta, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_of_table(T.ff_stream_frame, int(b.partition_key) .. uuid(b.execution_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_stream_frame, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_of_table(T.ff_stream_summary, int(b.partition_key) .. uuid(b.execution_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_stream_summary, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.execution_id ~= nil then
          each_of_table(T.ff_step, int(b.partition_key) .. uuid(b.execution_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_step, pk, false) end
      end
      do
        local found = {}
        if b.execution_id ~= nil then
          each_row(I.lease_events_of, uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        local last
        for _, pk in ipairs(found) do
          local number = fetch(T.ff_lease_event, pk).event_id
          if last == nil or less(last, number) then last = number end
        end
        if last then trim('ff_lease_event', last) end
        for _, pk in ipairs(found) do put(T.ff_lease_event, pk, false) end
      end
      do
        local found = {}
        if b.execution_id ~= nil then
          each_row(I.completion_events_of, uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        local last
        for _, pk in ipairs(found) do
          local number = fetch(T.ff_completion_event, pk).event_id
          if last == nil or less(last, number) then last = number end
        end
        if last then trim('ff_completion_event', last) end
        for _, pk in ipairs(found) do put(T.ff_completion_event, pk, false) end
      end
      do
        local found = {}
        if b.execution_id ~= nil then
          each_row(I.operator_events_of, uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        local last
        for _, pk in ipairs(found) do
          local number = fetch(T.ff_operator_event, pk).event_id
          if last == nil or less(last, number) then last = number end
        end
        if last then trim('ff_operator_event', last) end
        for _, pk in ipairs(found) do put(T.ff_operator_event, pk, false) end
      end
      do
        local found = {}
        if b.execution_id ~= nil then
          each_row(I.signal_events_of, uuid(b.execution_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.execution_id) then found[#found + 1] = pk end end)
        end
        local last
        for _, pk in ipairs(found) do
          local number = fetch(T.ff_signal_event, pk).event_id
          if last == nil or less(last, number) then last = number end
        end
        if last then trim('ff_signal_event', last) end
        for _, pk in ipairs(found) do put(T.ff_signal_event, pk, false) end
      end
      put(T.ff_exec_core, pk, false)
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.flow_id ~= nil and a[5] ~= nil then
        local pk = int(n.partition_key) .. uuid(n.flow_id) .. word(a[5])
        local r = fetch(T.ff_cancel_backlog_member, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.flow_id, n.flow_id) and same(r.execution_id, a[5]) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_cancel_backlog_member, pk, false) end
    end
    do
      local found = {}
      if n.namespace ~= nil and n.idempotency_key ~= nil then
        local pk = word(n.namespace) .. word(n.idempotency_key)
        local r = fetch(T.ff_idempotency, pk)
        if r and same(r.namespace, n.namespace) and same(r.idempotency_key, n.idempotency_key) and same(r.execution_id, n.execution_id) and (r.expires_at_ms == nil or up_to(r.expires_at_ms, now())) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_idempotency, pk, false) end
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(a[7], 'execution_id'),
        event_type = required('deleted', 'event_type'),
        details = a[8],
        occurred_at_ms = required(a[6], 'occurred_at_ms'),
        namespace = n.namespace,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 3)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
