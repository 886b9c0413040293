-- remember_suspend_again(partition_key, idempotency_key, outcome_json, now, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.idempotency_key AS idempotency_key,
    u.outcome_json AS outcome_json,
    u.now AS now,
    u.expires_at_ms AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS u(partition_key, idempotency_key, outcome_json, now, expires_at_ms, n_)),
g AS (UPDATE ff_suspend_dedup AS t
    SET outcome_json = a.outcome_json,
    created_at_ms = a.now,
    expires_at_ms = a.expires_at_ms
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.idempotency_key = a.idempotency_key RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
