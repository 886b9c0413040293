-- give_back_all_usage(budget_id, dimension, by)

UPDATE ff_budget_usage
    SET current_value = 0,
    updated_at_ms = ?
    WHERE budget_id = ?
    AND dimensions_key = ?
    AND current_value < ?;
