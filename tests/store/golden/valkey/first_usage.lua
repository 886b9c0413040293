-- first_usage(budget_id, dimension, by)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        budget_id = required(a[2], 'budget_id'),
        dimensions_key = required(a[3], 'dimensions_key'),
        current_value = required(a[4], 'current_value'),
        updated_at_ms = required(now(), 'updated_at_ms'),
      }
      local pk = uuid(row.budget_id) .. word(row.dimensions_key)
      n = insert(T.ff_budget_usage, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
