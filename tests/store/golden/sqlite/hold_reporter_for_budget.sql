-- hold_reporter_for_budget(partition_key, execution_id, version, lease_id, now, detail, blocked_on, worker_instance_id, details)

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
    AND version = ?
    AND ownership_state = 'leased'
    AND current_lease_id = ?
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
    eligibility_state = 'blocked_by_budget',
    blocking_reason = 'waiting_for_budget',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'rate_limited',
    blocked_on = ?,
    attempt_state = 'attempt_interrupted',
    interrupt_cause = 'budget',
    lease_epoch = ?,
    attempt_timeout_remaining_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'suspended',
    suspended_at_ms = ?,
    lease_expires_at_ms = NULL,
    lease_epoch = ?,
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
    'budget');

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('budget_breached',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
