-- create_waitpoint(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names, approvers)

UPDATE ff_exec_core
    SET last_mutation_at = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND lease_epoch = ?
    AND attempt_index = ?
    AND current_lease_id = ?
    AND current_worker_instance_id = ?
    AND lifecycle_phase = 'active'
    AND ownership_state = 'leased'
    AND lease_expires_at_ms > ?
    AND (attempt_timeout_at_ms IS NULL OR attempt_timeout_at_ms > ?);

INSERT INTO ff_waitpoint_pending (partition_key,
    waitpoint_id,
    execution_id,
    token_kid,
    token_digest,
    created_at_ms,
    expires_at_ms,
    waitpoint_key,
    attempt_index,
    payload_schema,
    state,
    required_signal_names,
    approvers)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    'pending',
    ?,
    ?)
    ON CONFLICT DO NOTHING;
