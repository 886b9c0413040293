-- restart_from_step(partition_key, execution_id, version, now, attempt_id, replay_reason, replay_requested_by, deadline_at_ms, deadline_origin, raw_fields, position, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.attempt_id AS attempt_id,
    u.replay_reason AS replay_reason,
    u.replay_requested_by AS replay_requested_by,
    u.deadline_at_ms AS deadline_at_ms,
    u.deadline_origin AS deadline_origin,
    u.raw_fields::json AS raw_fields,
    u.position AS position,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, attempt_id, replay_reason, replay_requested_by, deadline_at_ms, deadline_origin, raw_fields, position, details, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    attempt_state = 'pending_replay_attempt'::text,
    replay_count = t.replay_count + 1,
    lease_epoch = t.lease_epoch + 1,
    current_attempt_id = a.attempt_id,
    attempt_timeout_remaining_ms = t.attempt_timeout_ms,
    pending_replay_reason = a.replay_reason,
    pending_replay_requested_by = a.replay_requested_by,
    pending_previous_attempt_index = t.attempt_index,
    deadline_at_ms = a.deadline_at_ms,
    deadline_origin = a.deadline_origin,
    raw_fields = a.raw_fields,
    terminal_at_ms = NULL::bigint,
    retain_until_ms = NULL::bigint,
    result = NULL::bytea,
    result_encoding = NULL::text,
    cancellation_reason = NULL::text,
    cancelled_by = NULL::text,
    failure_reason = NULL::text,
    closing_epoch = NULL::bigint,
    closing_attempt_index = NULL::bigint,
    interrupt_cause = NULL::text,
    pending_retry_reason = NULL::text,
    blocked_on = NULL::text,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'eligible_now'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.attempt_id,
    a.replay_reason,
    a.replay_requested_by,
    a.position,
    a.now,
    a.details,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.lease_epoch AS r_lease_epoch,
    t.flow_id AS r_flow_id,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.lane_id AS r_lane_id,
    t.deadline_at_ms AS r_deadline_at_ms),
w4 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details) SELECT 'replayed'::text,
    g.now,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.details
    FROM g),
w3 AS (DELETE
    FROM ff_step AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.position >= g.position),
w2 AS (UPDATE ff_flow_core AS t
    SET settled_at_ms = NULL::bigint,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
w1 AS (UPDATE ff_attempt AS t
    SET attempt_state = 'created'::text,
    attempt_type = 'replay'::text,
    attempt_id = g.attempt_id,
    lease_epoch = g.r_lease_epoch,
    replay_reason = g.replay_reason,
    replay_requested_by = g.replay_requested_by,
    replayed_from_attempt_index = g.r_attempt_index,
    outcome = NULL::text,
    terminal_at_ms = NULL::bigint,
    failure_reason = NULL::text,
    failure_category = NULL::text,
    worker_id = NULL::text,
    worker_instance_id = NULL::text,
    lease_expires_at_ms = NULL::bigint
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lane_id,
    g.r_deadline_at_ms
    FROM g;
