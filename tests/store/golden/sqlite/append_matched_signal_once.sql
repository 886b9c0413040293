-- append_matched_signal_once(partition_key, execution_id, version, now, satisfied_set, satisfier_signal_ids, waitpoint_id, signals_trimmed, signal_id, waitpoint_key, suspension_id, attempt_index, signal_name, signal_category, source_type, source_identity, correlation_id, payload_encoding, target_scope, idempotency_key, created_at_ms, observed_effect, matched, payload, comment, link, namespace, instance_tag, dedup_until_ms)

SELECT partition_key,
    execution_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase = 'suspended';

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_suspension_current
    SET satisfied_set = ?,
    satisfier_signal_ids = ?,
    last_signal_at_ms = ?,
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_waitpoint_pending
    SET signal_count = signal_count + 1,
    signals_trimmed = ?,
    last_signal_at_ms = ?,
    version = version + 1,
    matched_signal_count = matched_signal_count + 1
    WHERE partition_key = ?
    AND waitpoint_id = ?;

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

INSERT INTO ff_signal_dedup (partition_key,
    waitpoint_id,
    idempotency_key,
    execution_id,
    signal_id,
    expires_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT (partition_key,
    waitpoint_id,
    idempotency_key) DO UPDATE
    SET execution_id = ?,
    signal_id = ?,
    expires_at_ms = ?;
