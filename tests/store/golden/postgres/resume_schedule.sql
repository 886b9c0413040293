-- resume_schedule(namespace, name)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(namespace, name, n_)),
g AS (UPDATE ff_schedule AS t
    SET paused = 0,
    cursor_ms = a.now_ms_
    FROM a
    WHERE t.namespace = a.namespace
    AND t.name = a.name
    AND CASE WHEN t.paused = 1 THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
