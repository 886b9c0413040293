-- take_idempotency_key(namespace, idempotency_key, partition_key, execution_id, expires_at_ms, digest)

INSERT INTO ff_idempotency (namespace,
    idempotency_key,
    partition_key,
    execution_id,
    expires_at_ms,
    digest)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
