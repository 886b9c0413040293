-- retake_idempotency_key(namespace, idempotency_key, partition_key, execution_id, expires_at_ms)

UPDATE ff_idempotency
    SET partition_key = ?,
    execution_id = ?,
    expires_at_ms = ?
    WHERE namespace = ?
    AND idempotency_key = ?
    AND expires_at_ms <= ?;
