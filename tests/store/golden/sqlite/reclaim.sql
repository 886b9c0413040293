-- reclaim(partition_key, execution_id, version, lease_id, attempt_id, worker_id, worker_instance_id, lease_ttl_ms, renew_within_ms, old_attempt_index, reclaim_reason, attempt_policy)

SELECT attempt_state,
    partition_key,
    execution_id,
    total_attempt_count,
    lease_epoch,
    attempt_timeout_ms,
    namespace,
    instance_tag,
    lane_id,
    retry_count,
    policy,
    execution_kind,
    payload,
    tags
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    reserved_for = NULL,
    reserved_until_ms = NULL,
    lifecycle_phase = 'active',
    ownership_state = 'leased',
    eligibility_state = 'not_applicable',
    blocking_reason = 'none',
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'active',
    attempt_state = 'running_attempt',
    lease_epoch = ?,
    current_lease_id = ?,
    current_attempt_id = ?,
    attempt_index = ?,
    total_attempt_count = total_attempt_count + 1,
    current_worker_id = ?,
    current_worker_instance_id = ?,
    started_at_ms = coalesce(started_at_ms, ?),
    lease_acquired_at = ?,
    lease_last_renewed_at = ?,
    lease_expires_at_ms = ?,
    lease_renewal_deadline = (? + ?),
    attempt_timeout_at_ms = ?,
    lease_expired_at = NULL,
    attempt_timeout_remaining_ms = NULL,
    interrupt_cause = NULL,
    delay_until_ms = NULL,
    pending_retry_reason = NULL,
    pending_replay_reason = NULL,
    pending_replay_requested_by = NULL,
    pending_previous_attempt_index = NULL,
    pending_attempt_policy = NULL,
    blocked_on = NULL,
    lease_reclaim_count = lease_reclaim_count + 1
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'interrupted_reclaimed',
    outcome = 'interrupted_reclaimed',
    failure_reason = ?,
    terminal_at_ms = ?,
    lease_expires_at_ms = NULL
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;

INSERT INTO ff_attempt (partition_key,
    execution_id,
    attempt_index,
    attempt_id,
    attempt_type,
    attempt_state,
    worker_id,
    worker_instance_id,
    lease_id,
    lease_epoch,
    lease_expires_at_ms,
    attempt_timeout_at_ms,
    created_at_ms,
    started_at_ms,
    reclaim_reason,
    previous_attempt_index,
    policy)
    VALUES (?,
    ?,
    ?,
    ?,
    'reclaim',
    'started',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;

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
    worker_instance_id)
    VALUES ('reclaimed',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
