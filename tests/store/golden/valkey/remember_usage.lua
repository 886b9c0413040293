-- remember_usage(budget_id, key, outcome, now, expires_at_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        budget_id = required(a[2], 'budget_id'),
        dedup_key = required(a[3], 'dedup_key'),
        outcome_json = required(a[4], 'outcome_json'),
        applied_at_ms = required(a[5], 'applied_at_ms'),
        expires_at_ms = required(a[6], 'expires_at_ms'),
      }
      local pk = uuid(row.budget_id) .. word(row.dedup_key)
      n = insert(T.ff_budget_usage_dedup, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
