-- restart_from_step(partition_key, execution_id, version, now, attempt_id, replay_reason, replay_requested_by, deadline_at_ms, deadline_origin, raw_fields, position, details)

SELECT lease_epoch,
    attempt_index,
    partition_key,
    execution_id,
    flow_id,
    namespace,
    instance_tag,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    attempt_state = 'pending_replay_attempt',
    replay_count = replay_count + 1,
    lease_epoch = ?,
    current_attempt_id = ?,
    attempt_timeout_remaining_ms = attempt_timeout_ms,
    pending_replay_reason = ?,
    pending_replay_requested_by = ?,
    pending_previous_attempt_index = attempt_index,
    deadline_at_ms = ?,
    deadline_origin = ?,
    raw_fields = ?,
    terminal_at_ms = NULL,
    retain_until_ms = NULL,
    result = NULL,
    result_encoding = NULL,
    cancellation_reason = NULL,
    cancelled_by = NULL,
    failure_reason = NULL,
    closing_epoch = NULL,
    closing_attempt_index = NULL,
    interrupt_cause = NULL,
    pending_retry_reason = NULL,
    blocked_on = NULL,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'eligible_now',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'waiting'
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET attempt_state = 'created',
    attempt_type = 'replay',
    attempt_id = ?,
    lease_epoch = ?,
    replay_reason = ?,
    replay_requested_by = ?,
    replayed_from_attempt_index = ?,
    outcome = NULL,
    terminal_at_ms = NULL,
    failure_reason = NULL,
    failure_category = NULL,
    worker_id = NULL,
    worker_instance_id = NULL,
    lease_expires_at_ms = NULL
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;

UPDATE ff_flow_core
    SET settled_at_ms = NULL,
    version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?;

DELETE
    FROM ff_step
    WHERE partition_key = ?
    AND execution_id = ?
    AND position >= ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('replayed',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
