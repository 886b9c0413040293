-- trim_flow(partition_key, flow_id, version)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3])
    local r = fetch(T.ff_flow_core, pk)
    if not (r and same(r.version, a[4])) then refuse(0) end
    b, n = r, r
    do
      local found = {}
      if b.partition_key ~= nil and b.flow_id ~= nil then
        each_of_table(T.ff_edge, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge, pk)
        erase(T.ff_edge, pk)
      end
    end
    do
      local found = {}
      if b.partition_key ~= nil and b.flow_id ~= nil then
        each_of_table(T.ff_edge_group, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_edge_group, pk)
        erase(T.ff_edge_group, pk)
      end
    end
    do
      local found = {}
      if b.partition_key ~= nil and b.flow_id ~= nil then
        each_of_table(T.ff_pending_cancel_groups, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_pending_cancel_groups, pk)
        erase(T.ff_pending_cancel_groups, pk)
      end
    end
    do
      local pk = int(b.partition_key) .. uuid(b.flow_id)
      local r = b.partition_key ~= nil and b.flow_id ~= nil and fetch(T.ff_cancel_backlog, pk)
      if r then
        erase(T.ff_cancel_backlog, pk)
      end
    end
    do
      local found = {}
      if b.partition_key ~= nil and b.flow_id ~= nil then
        each_of_table(T.ff_cancel_backlog_member, int(b.partition_key) .. uuid(b.flow_id), function(pk, r) if same(r.partition_key, b.partition_key) and same(r.flow_id, b.flow_id) then found[#found + 1] = pk end end)
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_cancel_backlog_member, pk)
        erase(T.ff_cancel_backlog_member, pk)
      end
    end
    do
      local pk = int(b.partition_key) .. uuid(b.flow_id)
      local r = b.partition_key ~= nil and b.flow_id ~= nil and fetch(T.ff_flow_summary, pk)
      if r then
        erase(T.ff_flow_summary, pk)
      end
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
        erase(T.ff_operator_event, pk)
      end
      if last then trim('ff_operator_event', last) end
    end
    erase(T.ff_flow_core, pk)
    return { 1 }
  end,
}
