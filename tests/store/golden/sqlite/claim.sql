-- claim(lane_id, namespace, capabilities, worker_id, worker_instance_id, lease_ttl_ms, renew_within_ms)

SELECT attempt_state,
    pending_retry_reason,
    pending_replay_reason,
    pending_replay_requested_by,
    pending_previous_attempt_index,
    pending_attempt_policy,
    partition_key,
    execution_id,
    current_attempt_id,
    total_attempt_count,
    attempt_index,
    lease_epoch,
    attempt_timeout_ms,
    attempt_timeout_remaining_ms,
    namespace,
    instance_tag,
    lane_id,
    retry_count,
    policy,
    execution_kind,
    payload,
    tags
    FROM ff_exec_core
    WHERE lifecycle_phase = 'runnable'
    AND eligibility_state = 'eligible_now'
    AND lane_id = ?
    AND namespace = ?
    AND gate = ''
    AND (required_capabilities IN (SELECT value FROM json_each(?)) OR (CASE WHEN ? IS NULL OR NOT json_valid(required_capabilities) THEN false ELSE NOT EXISTS (SELECT 1 FROM json_each(required_capabilities) AS needed WHERE needed.value NOT IN (SELECT value FROM json_each(?))) END))
    AND (reserved_until_ms IS NULL OR reserved_until_ms < ? OR reserved_for = ?)
    AND NOT EXISTS (SELECT 1 FROM ff_lane_registry WHERE lane_id = ? AND state IN ('paused', 'disabled'))
    ORDER BY priority DESC,
    created_at_ms,
    execution_id LIMIT ?;

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
    total_attempt_count = CASE WHEN current_attempt_id IS NULL THEN total_attempt_count + 1 ELSE total_attempt_count + 0 END,
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
    lease_reclaim_count = CASE WHEN interrupt_cause = 'lease_expired' THEN lease_reclaim_count + 1 ELSE lease_reclaim_count + 0 END
    WHERE partition_key = ?
    AND execution_id = ?;

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
    retry_reason,
    replay_reason,
    replay_requested_by,
    previous_attempt_index,
    policy)
    VALUES (?,
    ?,
    ?,
    ?,
    CASE WHEN ? = 'pending_retry_attempt' THEN 'retry' ELSE CASE WHEN ? = 'pending_replay_attempt' THEN 'replay' ELSE 'initial' END END,
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
    ?,
    ?,
    ?)
    ON CONFLICT (partition_key,
    execution_id,
    attempt_index) DO UPDATE
    SET attempt_state = 'started',
    worker_id = ?,
    worker_instance_id = ?,
    lease_id = ?,
    lease_epoch = ?,
    lease_expires_at_ms = ?,
    attempt_timeout_at_ms = ?,
    attempt_id = ?,
    started_at_ms = coalesce(started_at_ms,
    ?),
    resumed_at_ms = ?,
    suspended_at_ms = NULL,
    suspension_id = NULL,
    outcome = NULL,
    terminal_at_ms = NULL,
    attempt_timeout_remaining_ms = NULL;

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
    VALUES ('acquired',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
