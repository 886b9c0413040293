-- requeue(partition_key, execution_id, version)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, version, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now_ms_,
    last_transition_at = a.now_ms_,
    current_lease_id = NULL::uuid,
    current_worker_id = NULL::text,
    current_worker_instance_id = NULL::text,
    lease_expires_at_ms = NULL::bigint,
    lease_last_renewed_at = NULL::bigint,
    lease_renewal_deadline = NULL::bigint,
    lease_expired_at = NULL::bigint,
    attempt_timeout_at_ms = NULL::bigint,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'eligible_now'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text,
    attempt_state = 'attempt_interrupted'::text,
    attempt_timeout_remaining_ms = t.attempt_timeout_ms
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND t.ownership_state = 'lease_expired_reclaimable'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.attempt_timeout_remaining_ms AS r_attempt_timeout_remaining_ms,
    t.lane_id AS r_lane_id),
w1 AS (UPDATE ff_attempt AS t
    SET attempt_state = 'suspended'::text,
    suspended_at_ms = g.now_ms_,
    lease_expires_at_ms = NULL::bigint,
    outcome = NULL::text,
    attempt_timeout_remaining_ms = g.r_attempt_timeout_remaining_ms
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lane_id
    FROM g;
