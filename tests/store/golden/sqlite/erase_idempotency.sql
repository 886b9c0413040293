-- erase_idempotency(namespace, idempotency_key)

DELETE
    FROM ff_idempotency
    WHERE namespace = ?
    AND idempotency_key = ?;
