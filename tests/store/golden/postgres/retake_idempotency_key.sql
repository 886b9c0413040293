-- retake_idempotency_key(namespace, idempotency_key, partition_key, execution_id, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.idempotency_key AS idempotency_key,
    u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.expires_at_ms AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[]) WITH ORDINALITY AS u(namespace, idempotency_key, partition_key, execution_id, expires_at_ms, n_)),
g AS (UPDATE ff_idempotency AS t
    SET partition_key = a.partition_key,
    execution_id = a.execution_id,
    expires_at_ms = a.expires_at_ms
    FROM a
    WHERE t.namespace = a.namespace
    AND t.idempotency_key = a.idempotency_key
    AND CASE WHEN t.expires_at_ms <= a.now_ms_ THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
