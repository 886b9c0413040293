-- note_soft_breaches(budget_id, count)

UPDATE ff_budget_policy
    SET soft_breach_count = soft_breach_count + ?,
    updated_at_ms = ?
    WHERE budget_id = ?;
