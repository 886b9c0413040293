-- consume_waitpoint(partition_key, waitpoint_id, version, now)

UPDATE ff_waitpoint_pending
    SET state = 'closed',
    close_reason = 'resumed',
    satisfied_at_ms = ?,
    closed_at_ms = ?,
    version = version + 1
    WHERE partition_key = ?
    AND waitpoint_id = ?
    AND version = ?;
