-- reset_budget(budget_id, version, next_reset_at_ms, now)

UPDATE ff_budget_policy
    SET version = version + 1,
    last_breach_at_ms = NULL,
    last_breach_dim = NULL,
    next_reset_at_ms = ?,
    updated_at_ms = ?
    WHERE budget_id = ?
    AND version = ?;

DELETE
    FROM ff_budget_usage_by_exec
    WHERE budget_id = ?;
