-- forget_usage_key(budget_id, key, now)

DELETE
    FROM ff_budget_usage_dedup
    WHERE budget_id = ?
    AND dedup_key = ?
    AND expires_at_ms <= ?;
