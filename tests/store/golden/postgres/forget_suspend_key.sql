-- forget_suspend_key(partition_key, idempotency_key, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.idempotency_key AS idempotency_key,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::text[], $4::bigint[]) WITH ORDINALITY AS u(partition_key, idempotency_key, now, n_)),
g AS (DELETE
    FROM ff_suspend_dedup AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.idempotency_key = a.idempotency_key
    AND CASE WHEN t.expires_at_ms <= a.now THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.idempotency_key AS r_idempotency_key)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
