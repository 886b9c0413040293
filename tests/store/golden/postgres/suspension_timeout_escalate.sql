-- suspension_timeout_escalate(partition_key, execution_id, version, now, blocking_detail)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.blocking_detail AS blocking_detail,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, blocking_detail, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    lifecycle_phase = 'suspended'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'not_applicable'::text,
    blocking_reason = 'paused_by_operator'::text,
    blocking_detail = a.blocking_detail,
    terminal_outcome = 'none'::text,
    public_state = 'suspended'::text
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND t.lifecycle_phase = 'suspended'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id),
w1 AS (UPDATE ff_suspension_current AS t
    SET reason_code = 'waiting_for_operator_review'::text,
    timeout_at_ms = NULL::bigint,
    timeout_behavior = NULL::text,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND CASE WHEN t.closed_at_ms IS NULL THEN true ELSE false END)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
