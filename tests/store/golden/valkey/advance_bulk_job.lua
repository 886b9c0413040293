-- advance_bulk_job(job_id, version, cursor, matched, changed, skipped, refused, errors, follow_ups)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_bulk_job, pk)
      if not (r and same(r.version, a[3]) and same(r.state, 'running')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = a[4]
      local c1 = required(a[5], 'matched')
      local c2 = required(a[6], 'changed')
      local c3 = required(a[7], 'skipped')
      local c4 = required(a[8], 'refused')
      local c5 = required(a[9], 'errors')
      local c6 = required(a[10], 'follow_ups')
      local c7 = required(plus(r.version, '1'), 'version')
      local c8 = required(now(), 'updated_at_ms')
      w.cursor = c0
      w.matched = c1
      w.changed = c2
      w.skipped = c3
      w.refused = c4
      w.errors = c5
      w.follow_ups = c6
      w.version = c7
      w.updated_at_ms = c8
      put(T.ff_bulk_job, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
