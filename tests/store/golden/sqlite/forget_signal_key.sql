-- forget_signal_key(partition_key, waitpoint_id, idempotency_key, now)

DELETE
    FROM ff_signal_dedup
    WHERE partition_key = ?
    AND waitpoint_id = ?
    AND idempotency_key = ?
    AND expires_at_ms <= ?;
