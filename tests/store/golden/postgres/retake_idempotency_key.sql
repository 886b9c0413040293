-- retake_idempotency_key(namespace, idempotency_key, holder, holder_partition, partition_key, execution_id, expires_at_ms, digest)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.idempotency_key AS idempotency_key,
    u.holder AS holder,
    u.holder_partition AS holder_partition,
    u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.expires_at_ms AS expires_at_ms,
    u.digest AS digest,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::uuid[], $8::bigint[], $9::text[]) WITH ORDINALITY AS u(namespace, idempotency_key, holder, holder_partition, partition_key, execution_id, expires_at_ms, digest, n_)),
g AS (UPDATE ff_idempotency AS t
    SET partition_key = a.partition_key,
    execution_id = a.execution_id,
    expires_at_ms = a.expires_at_ms,
    digest = a.digest
    FROM a
    WHERE t.namespace = a.namespace
    AND t.idempotency_key = a.idempotency_key
    AND CASE WHEN (t.expires_at_ms IS NULL OR t.expires_at_ms <= a.now_ms_)
    AND t.execution_id = a.holder
    AND NOT EXISTS (SELECT 1 FROM ff_exec_core AS o WHERE o.partition_key = a.holder_partition AND o.execution_id = a.holder AND o.namespace = a.namespace AND o.idempotency_key = a.idempotency_key) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
