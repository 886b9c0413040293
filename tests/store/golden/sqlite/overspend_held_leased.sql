-- overspend_held_leased(partition_key, execution_id, version, lease_id, now, reason, worker_instance_id, details)

SELECT partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag,
    lease_epoch,
    flow_id
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
    reserved_for = NULL,
    reserved_until_ms = NULL,
    retain_until_ms = (? + failed_retention_ttl_ms),
    lifecycle_phase = 'terminal',
    ownership_state = 'unowned',
    eligibility_state = 'not_applicable',
    blocking_reason = 'none',
    blocking_detail = '',
    terminal_outcome = 'failed',
    public_state = 'failed',
    delay_until_ms = NULL,
    failure_reason = ?,
    last_failure_message = ?,
    terminal_at_ms = ?,
    closing_epoch = lease_epoch,
    closing_attempt_index = attempt_index,
    attempt_state = 'attempt_terminal'
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'ended_failure',
    outcome = 'failed',
    terminal_at_ms = ?,
    lease_expires_at_ms = NULL,
    failure_reason = ?
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
    'failed');

INSERT INTO ff_completion_event (outcome,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    flow_id,
    committed_at_ms)
    VALUES ('failed',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);

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
