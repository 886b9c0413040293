-- erase_bulk_job(job_id, namespace)
return {
  run = function(a)
    local time, b, n = now()
    local pk = uuid(a[2])
    local r = fetch(T.ff_bulk_job, pk)
    if not (r and same(r.namespace, a[3])) then refuse(0) end
    b, n = r, r
    do
      local found = {}
      if b.job_id ~= nil then
        each_row(I.operator_events_of, uuid(b.job_id), nil, nil, false, function(pk, r) if same(r.execution_id, b.job_id) then found[#found + 1] = pk end end)
      end
      local last
      for _, pk in ipairs(found) do
        local number = fetch(T.ff_operator_event, pk).event_id
        if last == nil or less(last, number) then last = number end
        erase(T.ff_operator_event, pk)
      end
      if last then trim('ff_operator_event', last) end
    end
    erase(T.ff_bulk_job, pk)
    return { 1 }
  end,
}
