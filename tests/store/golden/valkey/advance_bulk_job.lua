-- advance_bulk_job(job_id, version, cursor, matched, changed, skipped, refused, errors, follow_ups)
local constant_0 = { 'cursor', 'matched', 'changed', 'skipped', 'refused', 'errors', 'follow_ups', 'version', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_bulk_job, pk)
      if not (r and same(r.version, a[3]) and r.state == 'running') then refuse(0) end
      local c0 = a[4]
      local c1 = required(a[5], 'matched')
      local c2 = required(a[6], 'changed')
      local c3 = required(a[7], 'skipped')
      local c4 = required(a[8], 'refused')
      local c5 = required(a[9], 'errors')
      local c6 = required(a[10], 'follow_ups')
      local c7 = required(plus(r.version, '1'), 'version')
      local c8 = required(time, 'updated_at_ms')
      local g0, m0 = '', int(r.updated_at_ms) .. uuid(r.job_id) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.cursor ~= c0 then if c0 == nil then j = j + 1 u[j] = 'UNW' else k = k + 2 s[k - 1], s[k] = 'UNW', c0 end end
      if r.matched ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'PN7' else k = k + 2 s[k - 1], s[k] = 'PN7', c1 end end
      if r.changed ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'OOl' else k = k + 2 s[k - 1], s[k] = 'OOl', c2 end end
      if r.skipped ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'wNF' else k = k + 2 s[k - 1], s[k] = 'wNF', c3 end end
      if r.refused ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'gS8' else k = k + 2 s[k - 1], s[k] = 'gS8', c4 end end
      if r.errors ~= c5 then if c5 == '[]' then j = j + 1 u[j] = 'hI5' else k = k + 2 s[k - 1], s[k] = 'hI5', c5 end end
      if r.follow_ups ~= c6 then if c6 == '[]' then j = j + 1 u[j] = '62F' else k = k + 2 s[k - 1], s[k] = '62F', c6 end end
      if r.version ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c7 end end
      if r.updated_at_ms ~= c8 then k = k + 2 s[k - 1], s[k] = '23j', c8 end
      note_change(T.ff_bulk_job, pk, r, constant_0, { cursor = r.cursor, matched = r.matched, changed = r.changed, skipped = r.skipped, refused = r.refused, errors = r.errors, follow_ups = r.follow_ups, version = r.version, updated_at_ms = r.updated_at_ms })
      r.cursor = c0
      r.matched = c1
      r.changed = c2
      r.skipped = c3
      r.refused = c4
      r.errors = c5
      r.follow_ups = c6
      r.version = c7
      r.updated_at_ms = c8
      local h0, o0 = '', int(r.updated_at_ms) .. uuid(r.job_id) .. pk
      change(T.ff_bulk_job, pk, s, u)
      move(I.bulk_running, g0, m0, h0, o0)
      n = r
    end
    return { 1 }
  end,
}
