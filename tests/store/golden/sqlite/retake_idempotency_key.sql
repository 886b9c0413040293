-- retake_idempotency_key(namespace, idempotency_key, holder, holder_partition, partition_key, execution_id, expires_at_ms, digest)

UPDATE ff_idempotency
    SET partition_key = ?,
    execution_id = ?,
    expires_at_ms = ?,
    digest = ?
    WHERE namespace = ?
    AND idempotency_key = ?
    AND (expires_at_ms IS NULL OR expires_at_ms <= ?)
    AND execution_id = ?
    AND NOT EXISTS (SELECT 1 FROM ff_exec_core WHERE partition_key = ? AND execution_id = ? AND namespace = ? AND idempotency_key = ?);
