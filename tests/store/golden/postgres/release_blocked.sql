-- release_blocked(partition_key, execution_id, version, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.eligibility_state AS eligibility_state,
    u.blocking_reason AS blocking_reason,
    u.public_state AS public_state,
    u.lane_id AS lane_id,
    u.delayed_until_ms AS delayed_until_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, version, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now_ms_,
    last_transition_at = a.now_ms_,
    eligibility_state = a.eligibility_state,
    blocking_reason = a.blocking_reason,
    public_state = a.public_state,
    ownership_state = 'unowned'::text,
    blocking_detail = ''::text
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
