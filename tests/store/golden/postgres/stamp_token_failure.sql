-- stamp_token_failure(partition_key, execution_id, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, now, n_)),
g AS (UPDATE ff_exec_core AS t
    SET last_hmac_validation_failed_at = a.now
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
