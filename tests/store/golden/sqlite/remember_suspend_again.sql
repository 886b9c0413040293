-- remember_suspend_again(partition_key, idempotency_key, outcome_json, now, expires_at_ms)

UPDATE ff_suspend_dedup
    SET outcome_json = ?,
    created_at_ms = ?,
    expires_at_ms = ?
    WHERE partition_key = ?
    AND idempotency_key = ?;
