-- first_usage(budget_id, dimension, by)

INSERT INTO ff_budget_usage (budget_id,
    dimensions_key,
    current_value,
    updated_at_ms)
    VALUES (?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
