-- admit(quota_policy_id, execution_id, dimension, execution_uuid)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        quota_policy_id = required(a[2], 'quota_policy_id'),
        execution_id = required(a[3], 'execution_id'),
        admitted_at_ms = required(now(), 'admitted_at_ms'),
      }
      local pk = uuid(row.quota_policy_id) .. word(row.execution_id)
      n = insert(T.ff_quota_admitted, pk, row, 0)
    end
    do
      local row = {
        quota_policy_id = required(a[2], 'quota_policy_id'),
        dimension = required(a[4], 'dimension'),
        admitted_at_ms = required(now(), 'admitted_at_ms'),
        execution_id = required(a[5], 'execution_id'),
      }
      local pk = uuid(row.quota_policy_id) .. word(row.dimension) .. int(row.admitted_at_ms) .. uuid(row.execution_id)
      local r = fetch(T.ff_quota_window, pk)
      local w = row
      if r then
        w = copy(r)
        local c0 = required(a[4], 'dimension')
        w.dimension = c0
        put(T.ff_quota_window, pk, w)
      else
        insert(T.ff_quota_window, pk, row, 1)
      end
    end
    return row_answer(0, {  })
  end,
}
