-- see_task(namespace, name, version, declared_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.version AS version,
    u.declared_at_ms AS declared_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS u(namespace, name, version, declared_at_ms, n_)),
g AS (UPDATE ff_task AS t
    SET declared_at_ms = a.declared_at_ms,
    last_seen_ms = a.now_ms_,
    version = t.version + 1
    FROM a
    WHERE t.namespace = a.namespace
    AND t.name = a.name
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
