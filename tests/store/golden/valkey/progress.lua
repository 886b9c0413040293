-- progress(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, percent, message)
local constant_0 = { 'progress_updated_at', 'last_mutation_at', 'progress_pct', 'progress_message' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.lease_epoch, a[4]) and same(r.attempt_index, a[5]) and same(r.current_lease_id, a[6]) and same(r.current_worker_instance_id, a[7]) and r.lifecycle_phase == 'active' and r.ownership_state == 'leased' and less(time, r.lease_expires_at_ms) and (r.attempt_timeout_at_ms == nil or less(time, r.attempt_timeout_at_ms))) then refuse(0) end
      local c0 = time
      local c1 = required(time, 'last_mutation_at')
      local c2 = a[8]
      local c3 = a[9]
      local s, k, u, j = {}, 0, {}, 0
      if r.progress_updated_at ~= c0 then if c0 == nil then j = j + 1 u[j] = 'XiI' else k = k + 2 s[k - 1], s[k] = 'XiI', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.progress_pct ~= c2 then if c2 == nil then j = j + 1 u[j] = '9Vj' else k = k + 2 s[k - 1], s[k] = '9Vj', c2 end end
      if r.progress_message ~= c3 then if c3 == nil then j = j + 1 u[j] = 'Ldp' else k = k + 2 s[k - 1], s[k] = 'Ldp', c3 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { progress_updated_at = r.progress_updated_at, last_mutation_at = r.last_mutation_at, progress_pct = r.progress_pct, progress_message = r.progress_message })
      r.progress_updated_at = c0
      r.last_mutation_at = c1
      r.progress_pct = c2
      r.progress_message = c3
      change(T.ff_exec_core, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
