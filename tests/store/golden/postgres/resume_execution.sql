-- resume_execution(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.eligibility_state AS eligibility_state,
    u.blocking_reason AS blocking_reason,
    u.blocking_detail AS blocking_detail,
    u.public_state AS public_state,
    u.delay_until_ms AS delay_until_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = a.eligibility_state,
    blocking_reason = a.blocking_reason,
    blocking_detail = a.blocking_detail,
    terminal_outcome = 'none'::text,
    public_state = a.public_state,
    current_suspension_id = NULL::uuid,
    current_waitpoint_id = NULL::uuid,
    delay_until_ms = a.delay_until_ms
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND t.lifecycle_phase = 'suspended'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.lane_id AS r_lane_id),
w2 AS (UPDATE ff_waitpoint_pending AS t
    SET state = 'closed'::text,
    closed_at_ms = g.now,
    close_reason = 'resumed'::text,
    version = t.version + 1,
    satisfied_at_ms = g.now
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.state IN ('active')),
w1 AS (UPDATE ff_suspension_current AS t
    SET closed_at_ms = g.now,
    close_reason = 'resumed'::text,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND CASE WHEN t.closed_at_ms IS NULL THEN true ELSE false END)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lane_id
    FROM g;
