-- job_cancel_interrupted(partition_key, execution_id, version, now, reason, source, lease_epoch, attempt_index, attempt_reason, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.reason AS reason,
    u.source AS source,
    u.lease_epoch AS lease_epoch,
    u.attempt_index AS attempt_index,
    u.attempt_reason AS attempt_reason,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, reason, source, lease_epoch, attempt_index, attempt_reason, details, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    current_lease_id = NULL::uuid,
    current_worker_id = NULL::text,
    current_worker_instance_id = NULL::text,
    lease_expires_at_ms = NULL::bigint,
    lease_last_renewed_at = NULL::bigint,
    lease_renewal_deadline = NULL::bigint,
    lease_expired_at = NULL::bigint,
    attempt_timeout_at_ms = NULL::bigint,
    reserved_for = NULL::text,
    reserved_until_ms = NULL::bigint,
    retain_until_ms = (a.now_ms_ + t.retention_ttl_ms),
    lifecycle_phase = 'cancelled'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'not_applicable'::text,
    blocking_reason = 'none'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'cancelled'::text,
    public_state = 'cancelled'::text,
    delay_until_ms = NULL::bigint,
    terminal_at_ms = coalesce(t.terminal_at_ms, a.now),
    cancellation_reason = coalesce(t.cancellation_reason, a.reason),
    cancelled_by = coalesce(t.cancelled_by, a.source),
    closing_epoch = a.lease_epoch,
    closing_attempt_index = a.attempt_index,
    attempt_state = 'attempt_terminal'::text,
    lease_epoch = t.lease_epoch + 1,
    current_suspension_id = NULL::uuid,
    current_waitpoint_id = NULL::uuid
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    a.attempt_reason,
    a.details,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.lease_epoch AS r_lease_epoch,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.flow_id AS r_flow_id),
w6 AS (INSERT INTO ff_completion_event (outcome,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    flow_id,
    committed_at_ms) SELECT 'cancelled'::text,
    g.now,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.r_flow_id,
    g.now_ms_
    FROM g),
w5 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details) SELECT 'cancelled'::text,
    g.now,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.details
    FROM g),
w4 AS (DELETE
    FROM ff_claim_grant AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
w3 AS (UPDATE ff_waitpoint_pending AS t
    SET state = 'closed'::text,
    closed_at_ms = g.now,
    close_reason = 'cancelled'::text,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.state IN ('pending', 'active')),
w2 AS (UPDATE ff_suspension_current AS t
    SET closed_at_ms = g.now,
    close_reason = 'cancelled'::text,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND CASE WHEN t.closed_at_ms IS NULL THEN true ELSE false END),
w1 AS (UPDATE ff_attempt AS t
    SET attempt_state = 'ended_cancelled'::text,
    outcome = 'cancelled'::text,
    terminal_at_ms = g.now,
    lease_expires_at_ms = NULL::bigint,
    failure_reason = g.attempt_reason,
    worker_instance_id = NULL::text,
    lease_epoch = g.r_lease_epoch
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
