-- block_laneblock(partition_key, execution_id, version, now, detail)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.detail AS detail,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, detail, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'blocked_by_lane_state'::text,
    blocking_reason = 'paused_by_policy'::text,
    blocking_detail = a.detail,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
