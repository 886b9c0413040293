-- renew_for_untold(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, lease_ttl_ms, renew_within_ms)
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
      local c0 = plus(now(), a[8])
      local c1 = now()
      local c2 = plus(now(), a[9])
      w.lease_expires_at_ms = c0
      w.lease_last_renewed_at = c1
      w.lease_renewal_deadline = c2
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local found = {}
      if n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil then
        local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
        local r = fetch(T.ff_attempt, pk)
        if r and same(r.partition_key, n.partition_key) and same(r.execution_id, n.execution_id) and same(r.attempt_index, n.attempt_index) then found[#found + 1] = pk end
      end
      for _, pk in ipairs(found) do
        local r = fetch(T.ff_attempt, pk)
        local w
        w = copy(r)
        local c0 = n.lease_expires_at_ms
        w.lease_expires_at_ms = c0
        put(T.ff_attempt, pk, w)
      end
    end
    do local at = n.lease_expires_at_ms if at then wake('leased', '', nil, at) end end
    return row_answer(2, { n.lease_expires_at_ms, n.lease_epoch })
  end,
}
