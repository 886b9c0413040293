-- forget_suspend_key(partition_key, idempotency_key, now)

DELETE
    FROM ff_suspend_dedup
    WHERE partition_key = ?
    AND idempotency_key = ?
    AND expires_at_ms <= ?;
