-- create_bulk_job(job_id, namespace, action, args)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_job_id = required(a[2], 'job_id')
      local v_namespace = a[3]
      local v_action = required(a[4], 'action')
      local v_args = required(a[5], 'args')
      local v_created_at_ms = required(time, 'created_at_ms')
      local v_updated_at_ms = required(time, 'updated_at_ms')
      local pk = uuid(v_job_id)
      if exists(T.ff_bulk_job, pk) then refuse(0) end
      local h0, o0 = '', int(v_created_at_ms) .. uuid(v_job_id) .. pk
      local h1, o1 = '', int(v_updated_at_ms) .. uuid(v_job_id) .. pk
      local s, k = { 'RU1', v_job_id, 'khk', v_action, '6Sa', v_args, 'yVc', v_created_at_ms, '23j', v_updated_at_ms }, 10
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      make(T.ff_bulk_job, pk, s)
      add(I.bulk_jobs, h0, o0)
      add(I.bulk_running, h1, o1)
    end
    wake('bulk', '', '', '')
    return { 1 }
  end,
}
