-- bind_waitpoint(partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, now, suspension_id, required_signal_names)

INSERT INTO ff_waitpoint_pending (partition_key,
    waitpoint_id,
    execution_id,
    token_kid,
    token,
    created_at_ms,
    expires_at_ms,
    waitpoint_key,
    attempt_index,
    state,
    activated_at_ms,
    suspension_id,
    required_signal_names)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    'active',
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
