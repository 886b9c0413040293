-- move_execution(partition_key, execution_id, version, lane_id, budget_ids, quota_policy_id, gate, now, details)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and not (function() local found = {} if a[5] ~= nil then local pk = word(a[5]) local r = fetch(T.ff_lane_registry, pk) if r and same(r.lane_id, a[5]) and (r.state == 'draining' or r.state == 'disabled') then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = nil
      local c1 = nil
      local c2 = required(a[5], 'lane_id')
      local c3 = required(a[6], 'budget_ids')
      local c4 = a[7]
      local c5 = required(a[8], 'gate')
      local c6 = required(plus(r.version, '1'), 'version')
      local c7 = required(a[9], 'last_mutation_at')
      w.reserved_for = c0
      w.reserved_until_ms = c1
      w.lane_id = c2
      w.budget_ids = c3
      w.quota_policy_id = c4
      w.gate = c5
      w.version = c6
      w.last_mutation_at = c7
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil then
        local pk = int(n.partition_key) .. uuid(n.execution_id)
        local r = fetch(T.ff_claim_grant, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do put(T.ff_claim_grant, pk, false) end
    end
    do
      local row = {
        event_id = next_number(T.ff_operator_event),
        execution_id = required(n.execution_id, 'execution_id'),
        event_type = required('moved', 'event_type'),
        details = a[10],
        occurred_at_ms = required(a[9], 'occurred_at_ms'),
        partition_key = required(n.partition_key, 'partition_key'),
        namespace = n.namespace,
        instance_tag = n.instance_tag,
      }
      local pk = int(row.event_id)
      insert(T.ff_operator_event, pk, row, 2)
    end
    wake('ff_operator_event', '', nil, '')
    return row_answer(0, {  })
  end,
}
