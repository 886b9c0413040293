-- fail_for_good(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, reason, category)

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
    failure_reason = ?,
    last_failure_message = ?,
    closing_epoch = ?,
    closing_attempt_index = ?,
    terminal_at_ms = ?,
    retain_until_ms = (? + failed_retention_ttl_ms),
    lifecycle_phase = 'terminal',
    ownership_state = 'unowned',
    eligibility_state = 'not_applicable',
    blocking_reason = 'none',
    blocking_detail = '',
    terminal_outcome = 'failed',
    public_state = 'failed',
    attempt_state = 'attempt_terminal'
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'ended_failure',
    outcome = 'failed',
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
