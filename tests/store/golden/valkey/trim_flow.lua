-- trim_flow(partition_key, flow_id, version)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b, n = r, r
      do
        local found = {}
        if b.partition_key ~= nil and b.flow_id ~= nil then
          each_of_table(T.ff_edge, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_edge, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.flow_id ~= nil then
          each_of_table(T.ff_edge_group, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_edge_group, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.flow_id ~= nil then
          each_of_table(T.ff_pending_cancel_groups, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_pending_cancel_groups, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.flow_id ~= nil then
          local pk = int(b.partition_key) .. uuid(b.flow_id)
          local r = fetch(T.ff_cancel_backlog, pk)
          if r and same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end
        end
        for _, pk in ipairs(found) do put(T.ff_cancel_backlog, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.flow_id ~= nil then
          each_of_table(T.ff_cancel_backlog_member, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
        end
        for _, pk in ipairs(found) do put(T.ff_cancel_backlog_member, pk, false) end
      end
      do
        local found = {}
        if b.partition_key ~= nil and b.flow_id ~= nil then
          local pk = int(b.partition_key) .. uuid(b.flow_id)
          local r = fetch(T.ff_flow_summary, pk)
          if r and same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end
        end
        for _, pk in ipairs(found) do put(T.ff_flow_summary, pk, false) end
      end
      do
        local found = {}
        if b.flow_id ~= nil then
          each_row(I.operator_events_of, uuid(b.flow_id), nil, nil, false, function(pk, r) if same(r.partition_key, b.partition_key) and same(r.execution_id, b.flow_id) then found[#found + 1] = pk end end)
        end
        local last
        for _, pk in ipairs(found) do
          local number = fetch(T.ff_operator_event, pk).event_id
          if last == nil or less(last, number) then last = number end
        end
        if last then trim('ff_operator_event', last) end
        for _, pk in ipairs(found) do put(T.ff_operator_event, pk, false) end
      end
      put(T.ff_flow_core, pk, false)
    end
    return row_answer(0, {  })
  end,
}
