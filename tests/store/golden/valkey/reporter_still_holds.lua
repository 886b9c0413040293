-- reporter_still_holds(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id)
local constant_0 = { 'lease_epoch' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(time, r.attempt_timeout_at_ms))) then refuse(0) end
      local c0 = required(plus(r.lease_epoch, '0'), 'lease_epoch')
      local s, k, u, j = {}, 0, {}, 0
      if r.lease_epoch ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'BCm' else k = k + 2 s[k - 1], s[k] = 'BCm', c0 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { lease_epoch = r.lease_epoch })
      r.lease_epoch = c0
      change(T.ff_exec_core, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
