-- settle_account(partition_key, execution_id, dimension, budget_id, by)

DELETE
    FROM ff_budget_usage_by_exec
    WHERE partition_key = ?
    AND execution_id = ?
    AND dimensions_key = ?
    AND budget_id = ?
    AND delta_total = ?;
