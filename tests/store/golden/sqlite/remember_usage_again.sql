-- remember_usage_again(budget_id, key, now, outcome, expires_at_ms)

UPDATE ff_budget_usage_dedup
    SET outcome_json = ?,
    applied_at_ms = ?,
    expires_at_ms = ?
    WHERE budget_id = ?
    AND dedup_key = ?
    AND expires_at_ms <= ?;
