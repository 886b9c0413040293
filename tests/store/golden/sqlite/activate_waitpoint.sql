-- activate_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, expires_at_ms)

UPDATE ff_waitpoint_pending
    SET state = 'active',
    activated_at_ms = ?,
    suspension_id = ?,
    required_signal_names = ?,
    expires_at_ms = ?,
    version = version + 1
    WHERE partition_key = ?
    AND waitpoint_id = ?
    AND version = ?;
