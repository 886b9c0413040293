-- first_charge(partition_key, execution_id, budget_id, dimension, by)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        execution_id = required(a[3], 'execution_id'),
        dimensions_key = required(a[5], 'dimensions_key'),
        budget_id = required(a[4], 'budget_id'),
        delta_total = required(a[6], 'delta_total'),
        updated_at_ms = required(now(), 'updated_at_ms'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id) .. word(row.dimensions_key) .. uuid(row.budget_id)
      n = insert(T.ff_budget_usage_by_exec, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
