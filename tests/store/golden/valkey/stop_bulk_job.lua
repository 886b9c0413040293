-- stop_bulk_job(job_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_bulk_job, pk)
      if not (r and same(r.state, 'running')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('stopped', 'state')
      local c1 = required(plus(r.version, '1'), 'version')
      local c2 = required(now(), 'updated_at_ms')
      local c3 = now()
      w.state = c0
      w.version = c1
      w.updated_at_ms = c2
      w.ended_at_ms = c3
      put(T.ff_bulk_job, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
