-- close_waitpoint(partition_key, waitpoint_id, version, reason)

UPDATE ff_waitpoint_pending
    SET state = 'closed',
    closed_at_ms = ?,
    close_reason = ?,
    version = version + 1
    WHERE partition_key = ?
    AND waitpoint_id = ?
    AND version = ?;
