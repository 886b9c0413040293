-- drop_expired_grant(partition_key, execution_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[]) WITH ORDINALITY AS u(partition_key, execution_id, n_)),
g AS (DELETE
    FROM ff_claim_grant AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.expires_at_ms < a.now_ms_ THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.lane_id AS r_lane_id,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lane_id
    FROM g;
