-- requeue(partition_key, execution_id, version)

SELECT attempt_timeout_ms,
    partition_key,
    execution_id,
    attempt_index,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND ownership_state = 'lease_expired_reclaimable';

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
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'waiting',
    attempt_state = 'attempt_interrupted',
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'suspended',
    suspended_at_ms = ?,
    lease_expires_at_ms = NULL,
    outcome = NULL,
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;
