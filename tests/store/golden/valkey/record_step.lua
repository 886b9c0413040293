-- record_step(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, position, name, kind, value)
local function is_met_0(r, a, b, n, time) return r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) end
return {
  run = function(a)
    local time, b, n = now()
    do
      if not ((a[2] ~= nil and a[3] ~= nil and is_met_0(fetch(T.ff_exec_core, int(a[2]) .. uuid(a[3])), a, b, n, time))) then refuse(0) end
      local v_partition_key = required(a[2], 'partition_key')
      local v_execution_id = required(a[3], 'execution_id')
      local v_position = required(a[8], 'position')
      local v_name = required(a[9], 'name')
      local v_kind = required(a[10], 'kind')
      local v_attempt_index = required(a[5], 'attempt_index')
      local v_recorded_at_ms = required(time, 'recorded_at_ms')
      local v_value = a[11]
      local pk = int(v_partition_key) .. uuid(v_execution_id) .. int(v_position)
      if exists(T.ff_step, pk) then refuse(0) end
      local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'RO1', v_position, 'K0W', v_name, 'lUs', v_recorded_at_ms }, 10
      if v_kind ~= 'step' then k = k + 2 s[k - 1], s[k] = 'jRq', v_kind end
      if v_attempt_index ~= '0' then k = k + 2 s[k - 1], s[k] = 'oxR', v_attempt_index end
      if v_value ~= nil then k = k + 2 s[k - 1], s[k] = 'wMh', v_value end
      make(T.ff_step, pk, s)
    end
    return { 1 }
  end,
}
