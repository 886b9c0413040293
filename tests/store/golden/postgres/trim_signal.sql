-- trim_signal(partition_key, execution_id, signal_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.signal_id AS signal_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS u(partition_key, execution_id, signal_id, n_)),
g AS (DELETE
    FROM ff_signal AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND t.signal_id = a.signal_id RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.signal_id AS r_signal_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
