-- zero_usage(budget_id, dimension, now)

UPDATE ff_budget_usage
    SET current_value = 0,
    last_reset_at_ms = ?,
    updated_at_ms = ?
    WHERE budget_id = ?
    AND dimensions_key = ?;
