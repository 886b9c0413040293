-- forget_idempotency_key(namespace, idempotency_key, now, execution_id, partition_key)

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
g AS (DELETE
    FROM ff_idempotency AS t USING a
    WHERE t.namespace = a.namespace
    AND t.idempotency_key = a.idempotency_key
    AND CASE WHEN t.expires_at_ms <= a.now
    AND t.execution_id = a.execution_id
    AND NOT EXISTS (SELECT 1 FROM ff_exec_core AS o WHERE o.partition_key = a.partition_key AND o.execution_id = a.execution_id AND o.namespace = a.namespace AND o.idempotency_key = a.idempotency_key) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.namespace AS r_namespace,
    t.idempotency_key AS r_idempotency_key)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
