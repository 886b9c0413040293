-- remember_suspend(partition_key, idempotency_key, execution_id, outcome_json, expires_at_ms, now)

INSERT INTO ff_suspend_dedup (partition_key,
    idempotency_key,
    execution_id,
    outcome_json,
    expires_at_ms,
    created_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
