-- rebind_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema)

UPDATE ff_waitpoint_pending
    SET state = 'active',
    activated_at_ms = ?,
    suspension_id = ?,
    required_signal_names = ?,
    token_kid = ?,
    token_digest = ?,
    created_at_ms = ?,
    expires_at_ms = ?,
    waitpoint_key = ?,
    attempt_index = ?,
    payload_schema = ?,
    last_signal_at_ms = NULL,
    satisfied_at_ms = NULL,
    closed_at_ms = NULL,
    close_reason = NULL,
    version = version + 1
    WHERE partition_key = ?
    AND waitpoint_id = ?
    AND version = ?;
