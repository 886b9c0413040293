-- tag_signals(partition_key, waitpoint_id, version, suspension_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.waitpoint_id AS waitpoint_id,
    u.version AS version,
    u.suspension_id AS suspension_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::uuid[]) WITH ORDINALITY AS u(partition_key, waitpoint_id, version, suspension_id, n_)),
g AS (UPDATE ff_waitpoint_pending AS t
    SET version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.waitpoint_id = a.waitpoint_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.suspension_id,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.waitpoint_id AS r_waitpoint_id),
w1 AS (UPDATE ff_signal AS t
    SET suspension_id = g.suspension_id
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.waitpoint_id = g.r_waitpoint_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
