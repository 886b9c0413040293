-- keep_idempotency_key(namespace, idempotency_key, now, execution_id, partition_key)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.idempotency_key AS idempotency_key,
    u.now AS now,
    u.execution_id AS execution_id,
    u.partition_key AS partition_key,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[]) WITH ORDINALITY AS u(namespace, idempotency_key, now, execution_id, partition_key, n_)),
h AS MATERIALIZED (SELECT a.n_
    FROM a,
    ff_exec_core AS o
    WHERE o.partition_key = a.partition_key
    AND o.execution_id = a.execution_id
    AND CASE WHEN o.namespace = a.namespace
    AND o.idempotency_key = a.idempotency_key THEN true ELSE false END
    ORDER BY o.partition_key,
    o.execution_id FOR SHARE OF o),
g AS (UPDATE ff_idempotency AS t
    SET expires_at_ms = NULL::bigint
    FROM a
    WHERE t.namespace = a.namespace
    AND t.idempotency_key = a.idempotency_key
    AND CASE WHEN t.expires_at_ms <= a.now
    AND t.execution_id = a.execution_id
    AND a.n_ IN (SELECT h.n_ FROM h) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
