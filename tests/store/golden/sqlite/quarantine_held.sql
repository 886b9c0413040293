-- quarantine_held(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, detail)

SELECT attempt_timeout_at_ms,
    partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag,
    lease_epoch
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
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'blocked_by_operator',
    blocking_reason = 'paused_by_operator',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'waiting',
    attempt_state = 'attempt_interrupted',
    interrupt_cause = 'quarantined',
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'suspended',
    suspended_at_ms = ?,
    lease_expires_at_ms = NULL,
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;

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
    'quarantined');
