-- take_idempotency_key(namespace, idempotency_key, partition_key, execution_id, expires_at_ms, digest)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_namespace,
    cardinality($3::text[]) = 1 AS one_idempotency_key,
    cardinality($4::bigint[]) = 1 AS one_partition_key,
    cardinality($5::uuid[]) = 1 AS one_execution_id,
    cardinality($6::bigint[]) = 1 AS one_expires_at_ms,
    cardinality($7::text[]) = 1 AS one_digest,
    ($2::text[])[1] AS namespace,
    ($3::text[])[1] AS idempotency_key,
    ($4::bigint[])[1] AS partition_key,
    ($5::uuid[])[1] AS execution_id,
    ($6::bigint[])[1] AS expires_at_ms,
    ($7::text[])[1] AS digest),
a AS (SELECT CASE WHEN s.one_namespace THEN s.namespace ELSE u.namespace END AS namespace,
    CASE WHEN s.one_idempotency_key THEN s.idempotency_key ELSE u.idempotency_key END AS idempotency_key,
    CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_execution_id THEN s.execution_id ELSE u.execution_id END AS execution_id,
    CASE WHEN s.one_expires_at_ms THEN s.expires_at_ms ELSE u.expires_at_ms END AS expires_at_ms,
    CASE WHEN s.one_digest THEN s.digest ELSE u.digest END AS digest,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[], $7::text[]) WITH ORDINALITY AS u(namespace, idempotency_key, partition_key, execution_id, expires_at_ms, digest, n_)),
g AS (INSERT INTO ff_idempotency AS t (namespace,
    idempotency_key,
    partition_key,
    execution_id,
    expires_at_ms,
    digest) SELECT a.namespace,
    a.idempotency_key,
    a.partition_key,
    a.execution_id,
    a.expires_at_ms,
    a.digest
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.namespace AS r_namespace,
    t.idempotency_key AS r_idempotency_key)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_namespace) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_idempotency_key) END
    FROM g;
