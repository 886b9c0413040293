-- release_execution(partition_key, execution_id, version, now, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, details, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'eligible_now'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text,
    delay_until_ms = NULL::bigint,
    blocked_on = NULL::text
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    a.details,
    t.execution_id AS r_execution_id,
    t.partition_key AS r_partition_key,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.lane_id AS r_lane_id),
w1 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details) SELECT 'released'::text,
    g.now,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.details
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lane_id
    FROM g;
