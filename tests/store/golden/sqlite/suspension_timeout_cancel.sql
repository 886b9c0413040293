-- suspension_timeout_cancel(partition_key, execution_id, version, now)

SELECT partition_key,
    execution_id,
    attempt_index,
    namespace,
    instance_tag,
    flow_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase = 'suspended';

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
    current_suspension_id = NULL,
    current_waitpoint_id = NULL,
    retain_until_ms = (? + retention_ttl_ms),
    lifecycle_phase = 'cancelled',
    ownership_state = 'unowned',
    eligibility_state = 'not_applicable',
    blocking_reason = 'none',
    blocking_detail = '',
    terminal_outcome = 'cancelled',
    public_state = 'cancelled',
    attempt_state = 'attempt_terminal',
    failure_reason = 'suspension_timeout:cancel',
    terminal_at_ms = ?,
    closing_epoch = lease_epoch,
    closing_attempt_index = attempt_index
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'ended_cancelled',
    outcome = 'cancelled',
    terminal_at_ms = ?,
    lease_expires_at_ms = NULL,
    failure_reason = 'suspension_timeout:cancel'
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;

UPDATE ff_suspension_current
    SET closed_at_ms = ?,
    close_reason = 'timed_out_cancel',
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND closed_at_ms IS NULL;

UPDATE ff_waitpoint_pending
    SET state = 'closed',
    closed_at_ms = ?,
    close_reason = 'timed_out_cancel',
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND state IN ('pending', 'active');

DELETE
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?;

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
