-- record_step(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, position, name, kind, value)
return {
  run = function(a)
    local b, n = {}, {}
    do
      if not ((function() local found = {} if a[2] ~= nil and a[3] ~= nil then local pk = int(a[2]) .. uuid(a[3]) local r = fetch(T.ff_exec_core, pk) if r and same(r.partition_key, a[2]) and same(r.execution_id, a[3]) and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and same(r.lifecycle_phase, 'active') and same(r.ownership_state, 'leased') and less(now(), r.lease_expires_at_ms) then found[#found + 1] = pk end end return #found > 0 end)()) then refuse(0) end
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        position = required(a[8], 'position'),
        name = required(a[9], 'name'),
        kind = required(a[10], 'kind'),
        attempt_index = required(a[5], 'attempt_index'),
        recorded_at_ms = required(now(), 'recorded_at_ms'),
        value = a[11],
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. int(row.position)
      n = insert(T.ff_step, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
