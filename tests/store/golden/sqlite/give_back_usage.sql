-- give_back_usage(budget_id, dimension, by, less)

UPDATE ff_budget_usage
    SET current_value = current_value + ?,
    updated_at_ms = ?
    WHERE budget_id = ?
    AND dimensions_key = ?
    AND current_value >= ?;
