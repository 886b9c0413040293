-- first_charge(partition_key, execution_id, budget_id, dimension, by)

INSERT INTO ff_budget_usage_by_exec (partition_key,
    execution_id,
    budget_id,
    dimensions_key,
    delta_total,
    updated_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
