-- keep_idempotency_key(namespace, idempotency_key, now, execution_id, partition_key)

UPDATE ff_idempotency
    SET expires_at_ms = NULL
    WHERE namespace = ?
    AND idempotency_key = ?
    AND expires_at_ms <= ?
    AND execution_id = ?
    AND EXISTS (SELECT 1 FROM ff_exec_core WHERE partition_key = ? AND execution_id = ? AND namespace = ? AND idempotency_key = ?);
