-- renew_for(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, lease_ttl_ms, renew_within_ms)
local constant_0 = { 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline' }
local constant_1 = { 'lease_expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(time, r.attempt_timeout_at_ms))) then refuse(0) end
      local c0 = plus(time, a[8])
      local c1 = time
      local c2 = plus(time, a[9])
      local g0, m0 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.lease_expires_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'nWb' else k = k + 2 s[k - 1], s[k] = 'nWb', c0 end end
      if r.lease_last_renewed_at ~= c1 then if c1 == nil then j = j + 1 u[j] = '5lZ' else k = k + 2 s[k - 1], s[k] = '5lZ', c1 end end
      if r.lease_renewal_deadline ~= c2 then if c2 == nil then j = j + 1 u[j] = '6dF' else k = k + 2 s[k - 1], s[k] = '6dF', c2 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { lease_expires_at_ms = r.lease_expires_at_ms, lease_last_renewed_at = r.lease_last_renewed_at, lease_renewal_deadline = r.lease_renewal_deadline })
      r.lease_expires_at_ms = c0
      r.lease_last_renewed_at = c1
      r.lease_renewal_deadline = c2
      local h0, o0 = '', int(r.lease_expires_at_ms) .. uuid(r.execution_id) .. pk
      change(T.ff_exec_core, pk, s, u)
      move(I.leased, g0, m0, h0, o0)
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id) .. int(n.attempt_index)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and n.attempt_index ~= nil and fetch(T.ff_attempt, pk)
      if r then
        local c0 = n.lease_expires_at_ms
        local s, k, u, j = {}, 0, {}, 0
        if r.lease_expires_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'nWb' else k = k + 2 s[k - 1], s[k] = 'nWb', c0 end end
        note_change(T.ff_attempt, pk, r, constant_1, { lease_expires_at_ms = r.lease_expires_at_ms })
        r.lease_expires_at_ms = c0
        change(T.ff_attempt, pk, s, u)
      end
    end
    do
      local v_event_id = next_number(T.ff_lease_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_lease_id = a[6]
      local v_lease_epoch = n.lease_epoch
      local v_worker_instance_id = a[7]
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'renewed', 'fwj', v_occurred_at_ms }, 8
      if v_lease_id ~= nil then k = k + 2 s[k - 1], s[k] = 'wg5', v_lease_id end
      if v_lease_epoch ~= nil then k = k + 2 s[k - 1], s[k] = 'BCm', v_lease_epoch end
      if v_worker_instance_id ~= nil then k = k + 2 s[k - 1], s[k] = 'qqT', v_worker_instance_id end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_lease_event, pk, s)
      add(I.lease_events_of, h0, o0)
    end
    wake('ff_lease_event', '', '', '')
    wake('leased', '', '', n.lease_expires_at_ms)
    return { 1, n.lease_expires_at_ms or false, n.lease_epoch or false }
  end,
}
