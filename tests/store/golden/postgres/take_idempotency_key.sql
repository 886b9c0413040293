-- take_idempotency_key(namespace, idempotency_key, partition_key, execution_id, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.*,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[]) WITH ORDINALITY AS u(namespace, idempotency_key, partition_key, execution_id, expires_at_ms, n_)),
g AS (INSERT INTO ff_idempotency AS t (namespace,
    idempotency_key,
    partition_key,
    execution_id,
    expires_at_ms) SELECT a.namespace,
    a.idempotency_key,
    a.partition_key,
    a.execution_id,
    a.expires_at_ms
    FROM a
    WHERE true
    ORDER BY a.n_
    ON CONFLICT DO NOTHING RETURNING t.namespace AS r_namespace,
    t.idempotency_key AS r_idempotency_key)
SELECT (SELECT now_ms FROM clk),
    g.r_namespace,
    g.r_idempotency_key
    FROM g;
