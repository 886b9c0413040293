-- suspend_on_new_waitpoint(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, blocking_reason, blocking_detail, suspension_id, primary_waitpoint_id, now, suspension_text, timeout_at_ms, reason_code, condition, satisfied_set, timeout_behavior, requested_by, resume_policy, continuation_metadata_pointer, satisfier_signal_ids, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names)

SELECT lease_epoch,
    attempt_timeout_at_ms,
    partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag
    FROM ff_exec_core
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

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    current_lease_id = NULL,
    current_worker_id = NULL,
    current_worker_instance_id = NULL,
    lease_expires_at_ms = NULL,
    lease_last_renewed_at = NULL,
    lease_renewal_deadline = NULL,
    lease_expired_at = NULL,
    attempt_timeout_at_ms = NULL,
    lifecycle_phase = 'suspended',
    ownership_state = 'unowned',
    eligibility_state = 'not_applicable',
    blocking_reason = ?,
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'suspended',
    attempt_state = 'attempt_interrupted',
    interrupt_cause = 'suspended',
    lease_epoch = ?,
    attempt_timeout_remaining_ms = ?,
    current_suspension_id = ?,
    current_waitpoint_id = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'suspended',
    suspended_at_ms = ?,
    suspension_id = ?,
    lease_expires_at_ms = NULL,
    lease_epoch = ?,
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;

INSERT INTO ff_suspension_current (partition_key,
    execution_id,
    suspended_at_ms,
    suspension_id,
    timeout_at_ms,
    reason_code,
    condition,
    satisfied_set,
    timeout_behavior,
    attempt_index,
    requested_by,
    resume_policy,
    continuation_metadata_pointer,
    primary_waitpoint_id,
    satisfier_signal_ids,
    last_signal_at_ms,
    closer_signal_id,
    closed_at_ms,
    close_reason,
    version)
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
    ?,
    ?,
    ?,
    ?,
    ?,
    NULL,
    NULL,
    NULL,
    NULL,
    0)
    ON CONFLICT (partition_key,
    execution_id) DO UPDATE
    SET suspended_at_ms = ?,
    suspension_id = ?,
    timeout_at_ms = ?,
    reason_code = ?,
    condition = ?,
    satisfied_set = ?,
    timeout_behavior = ?,
    attempt_index = ?,
    requested_by = ?,
    resume_policy = ?,
    continuation_metadata_pointer = ?,
    primary_waitpoint_id = ?,
    satisfier_signal_ids = ?,
    last_signal_at_ms = NULL,
    closer_signal_id = NULL,
    closed_at_ms = NULL,
    close_reason = NULL,
    version = version + 1;

DELETE
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_lease_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    lease_id,
    lease_epoch,
    worker_instance_id,
    reason)
    VALUES ('revoked',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    'suspended');

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
    ?,
    'active',
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
