-- stop_bulk_job(job_id)
local constant_0 = { 'state', 'version', 'updated_at_ms', 'ended_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_bulk_job, pk)
      if not (r and r.state == 'running') then refuse(0) end
      local c1 = required(plus(r.version, '1'), 'version')
      local c2 = required(time, 'updated_at_ms')
      local c3 = time
      local g0, m0 = '', int(r.updated_at_ms) .. uuid(r.job_id) .. pk
      local g1, m1
      if r.ended_at_ms ~= nil then g1, m1 = '', int(r.ended_at_ms) .. uuid(r.job_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.state ~= 'stopped' then k = k + 2 s[k - 1], s[k] = 'X27', 'stopped' end
      if r.version ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c1 end end
      if r.updated_at_ms ~= c2 then k = k + 2 s[k - 1], s[k] = '23j', c2 end
      if r.ended_at_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = 'LRD' else k = k + 2 s[k - 1], s[k] = 'LRD', c3 end end
      note_change(T.ff_bulk_job, pk, r, constant_0, { state = r.state, version = r.version, updated_at_ms = r.updated_at_ms, ended_at_ms = r.ended_at_ms })
      r.state = 'stopped'
      r.version = c1
      r.updated_at_ms = c2
      r.ended_at_ms = c3
      local h1, o1
      if r.ended_at_ms ~= nil then h1, o1 = '', int(r.ended_at_ms) .. uuid(r.job_id) .. pk end
      change(T.ff_bulk_job, pk, s, u)
      remove(I.bulk_running, g0, m0)
      move(I.bulk_ended, g1, m1, h1, o1)
      n = r
    end
    return { 1 }
  end,
}
