-- remember_suspend(partition_key, idempotency_key, execution_id, outcome_json, expires_at_ms, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::text[]) = 1 AS one_idempotency_key,
    cardinality($4::uuid[]) = 1 AS one_execution_id,
    cardinality($5::text[]) = 1 AS one_outcome_json,
    cardinality($6::bigint[]) = 1 AS one_expires_at_ms,
    cardinality($7::bigint[]) = 1 AS one_now,
    ($2::bigint[])[1] AS partition_key,
    ($3::text[])[1] AS idempotency_key,
    ($4::uuid[])[1] AS execution_id,
    ($5::text[])[1] AS outcome_json,
    ($6::bigint[])[1] AS expires_at_ms,
    ($7::bigint[])[1] AS now),
a AS (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_idempotency_key THEN s.idempotency_key ELSE u.idempotency_key END AS idempotency_key,
    CASE WHEN s.one_execution_id THEN s.execution_id ELSE u.execution_id END AS execution_id,
    CASE WHEN s.one_outcome_json THEN s.outcome_json ELSE u.outcome_json END AS outcome_json,
    CASE WHEN s.one_expires_at_ms THEN s.expires_at_ms ELSE u.expires_at_ms END AS expires_at_ms,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::text[], $4::uuid[], $5::text[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS u(partition_key, idempotency_key, execution_id, outcome_json, expires_at_ms, now, n_)),
g AS (INSERT INTO ff_suspend_dedup AS t (partition_key,
    idempotency_key,
    execution_id,
    outcome_json,
    expires_at_ms,
    created_at_ms) SELECT a.partition_key,
    a.idempotency_key,
    a.execution_id,
    a.outcome_json,
    a.expires_at_ms,
    a.now
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.idempotency_key AS r_idempotency_key)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_idempotency_key) END
    FROM g;
