-- forget_idempotency_key(namespace, idempotency_key, now)

DELETE
    FROM ff_idempotency
    WHERE namespace = ?
    AND idempotency_key = ?
    AND expires_at_ms <= ?;
