-- create_bulk_job(job_id, namespace, action, args)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        job_id = required(a[2], 'job_id'),
        namespace = a[3],
        action = required(a[4], 'action'),
        args = required(a[5], 'args'),
        created_at_ms = required(now(), 'created_at_ms'),
        updated_at_ms = required(now(), 'updated_at_ms'),
      }
      local pk = uuid(row.job_id)
      n = insert(T.ff_bulk_job, pk, row, 0)
    end
    wake('bulk', '', nil, '')
    return row_answer(0, {  })
  end,
}
