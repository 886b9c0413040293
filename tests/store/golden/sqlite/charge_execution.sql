-- charge_execution(partition_key, execution_id, dimension, budget_id, by)

UPDATE ff_budget_usage_by_exec
    SET delta_total = delta_total + ?,
    updated_at_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND dimensions_key = ?
    AND budget_id = ?;
