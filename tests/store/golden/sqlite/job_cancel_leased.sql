-- job_cancel_leased(partition_key, execution_id, version, now, reason, source, lease_epoch, attempt_index, attempt_reason, lease_id, worker_instance_id, details)

SELECT lease_epoch,
    partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag,
    flow_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;

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
    retain_until_ms = (? + retention_ttl_ms),
    lifecycle_phase = 'cancelled',
    ownership_state = 'unowned',
    eligibility_state = 'not_applicable',
    blocking_reason = 'none',
    blocking_detail = '',
    terminal_outcome = 'cancelled',
    public_state = 'cancelled',
    delay_until_ms = NULL,
    terminal_at_ms = coalesce(terminal_at_ms, ?),
    cancellation_reason = coalesce(cancellation_reason, ?),
    cancelled_by = coalesce(cancelled_by, ?),
    closing_epoch = ?,
    closing_attempt_index = ?,
    attempt_state = 'attempt_terminal',
    lease_epoch = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'ended_cancelled',
    outcome = 'cancelled',
    terminal_at_ms = ?,
    lease_expires_at_ms = NULL,
    failure_reason = ?,
    worker_instance_id = NULL,
    lease_epoch = ?
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
    'cancelled');

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('cancelled',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);

INSERT INTO ff_completion_event (outcome,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    flow_id,
    committed_at_ms)
    VALUES ('cancelled',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
