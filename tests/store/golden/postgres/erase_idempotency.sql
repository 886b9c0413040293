-- erase_idempotency(namespace, idempotency_key)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.idempotency_key AS idempotency_key,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(namespace, idempotency_key, n_)),
g AS (DELETE
    FROM ff_idempotency AS t USING a
    WHERE t.namespace = a.namespace
    AND t.idempotency_key = a.idempotency_key RETURNING a.n_,
    a.now_ms_,
    t.namespace AS r_namespace,
    t.idempotency_key AS r_idempotency_key)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
