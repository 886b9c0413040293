-- timeout_retry_now(partition_key, execution_id, version, reason, attempt_index, next_policy, category, lease_id, worker_instance_id)

SELECT partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag,
    lease_epoch,
    total_attempt_count,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
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
    failure_reason = ?,
    last_failure_message = ?,
    attempt_state = 'pending_retry_attempt',
    retry_count = retry_count + 1,
    current_attempt_id = NULL,
    pending_retry_reason = ?,
    pending_previous_attempt_index = ?,
    pending_attempt_policy = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'eligible_now',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'waiting',
    delay_until_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'ended_failure',
    outcome = 'retry',
    terminal_at_ms = ?,
    lease_expires_at_ms = NULL,
    failure_reason = ?,
    failure_category = ?
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
    'retry');
