-- too_many_losses(partition_key, execution_id, version, lease_epoch, attempt_index)

SELECT current_lease_id,
    current_worker_instance_id,
    partition_key,
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
    AND (ownership_state != 'leased' OR lease_expires_at_ms <= ?);

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
    attempt_state = 'attempt_terminal',
    failure_reason = 'max_reclaims_exceeded',
    terminal_at_ms = ?,
    closing_epoch = ?,
    closing_attempt_index = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'interrupted_reclaimed',
    outcome = 'interrupted_reclaimed',
    terminal_at_ms = ?,
    lease_expires_at_ms = NULL
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
    'max_reclaims_exceeded');

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
