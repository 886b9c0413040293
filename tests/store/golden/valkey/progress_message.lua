-- progress_message(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, message)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and same(r.lifecycle_phase, 'active') and same(r.ownership_state, 'leased') and less(now(), r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(now(), r.attempt_timeout_at_ms))) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = now()
      local c1 = required(now(), 'last_mutation_at')
      local c2 = a[8]
      w.progress_updated_at = c0
      w.last_mutation_at = c1
      w.progress_message = c2
      put(T.ff_exec_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
