-- remember_usage(budget_id, key, outcome, now, expires_at_ms)

INSERT INTO ff_budget_usage_dedup (budget_id,
    dedup_key,
    outcome_json,
    applied_at_ms,
    expires_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
