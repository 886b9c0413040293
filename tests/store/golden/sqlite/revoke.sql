-- revoke(partition_key, execution_id, version, lease_epoch, blocking_detail)

SELECT current_lease_id,
    current_worker_instance_id,
    lease_epoch,
    attempt_timeout_ms,
    partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lease_epoch = ?
    AND ownership_state = 'leased';

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
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'eligible_now',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'waiting',
    attempt_state = 'attempt_interrupted',
    interrupt_cause = 'lease_revoked',
    lease_epoch = ?,
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'suspended',
    suspended_at_ms = ?,
    worker_instance_id = NULL,
    lease_expires_at_ms = NULL,
    lease_epoch = ?,
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;

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
    'lease_revoked');
