-- resume_by_signal(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms, satisfied_set, satisfier_signal_ids, signal_id, waitpoint_id, signals_trimmed, suspension_id, waitpoint_key, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag)

SELECT partition_key,
    execution_id,
    namespace,
    instance_tag,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase = 'suspended';

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = ?,
    blocking_reason = ?,
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = ?,
    current_suspension_id = NULL,
    current_waitpoint_id = NULL,
    delay_until_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_suspension_current
    SET satisfied_set = ?,
    satisfier_signal_ids = ?,
    last_signal_at_ms = ?,
    version = version + 1,
    closed_at_ms = ?,
    close_reason = 'resumed',
    closer_signal_id = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_waitpoint_pending
    SET signal_count = signal_count + 1,
    signals_trimmed = ?,
    last_signal_at_ms = ?,
    version = version + 1,
    matched_signal_count = matched_signal_count + 1,
    state = 'closed',
    close_reason = 'resumed',
    satisfied_at_ms = ?,
    closed_at_ms = ?
    WHERE partition_key = ?
    AND waitpoint_id = ?;

UPDATE ff_waitpoint_pending
    SET state = 'closed',
    close_reason = 'resumed',
    satisfied_at_ms = ?,
    closed_at_ms = ?,
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND state IN ('pending', 'active')
    AND suspension_id = ?
    AND waitpoint_id != ?;

INSERT INTO ff_signal (partition_key,
    execution_id,
    signal_id,
    waitpoint_id,
    waitpoint_key,
    suspension_id,
    attempt_index,
    signal_name,
    signal_category,
    source_type,
    source_identity,
    correlation_id,
    payload_encoding,
    target_scope,
    idempotency_key,
    created_at_ms,
    observed_effect,
    matched,
    payload,
    comment,
    link,
    accepted_at_ms)
    VALUES (?,
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
    signal_id) DO UPDATE
    SET waitpoint_id = ?,
    waitpoint_key = ?,
    suspension_id = ?,
    attempt_index = ?,
    signal_name = ?,
    signal_category = ?,
    source_type = ?,
    source_identity = ?,
    correlation_id = ?,
    payload_encoding = ?,
    target_scope = ?,
    idempotency_key = ?,
    created_at_ms = ?,
    observed_effect = ?,
    matched = ?,
    payload = ?,
    comment = ?,
    link = ?,
    accepted_at_ms = ?;

INSERT INTO ff_signal_event (event_type,
    occurred_at_ms,
    execution_id,
    signal_id,
    waitpoint_id,
    source_identity,
    partition_key,
    namespace,
    instance_tag)
    VALUES (?,
    ?,
    ?,
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
    committed_at_ms)
    VALUES ('resumable',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
