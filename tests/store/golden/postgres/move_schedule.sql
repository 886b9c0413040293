-- move_schedule(namespace, name, was_ms, cursor_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.was_ms AS was_ms,
    u.cursor_ms AS cursor_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS u(namespace, name, was_ms, cursor_ms, n_)),
g AS (UPDATE ff_schedule AS t
    SET cursor_ms = a.cursor_ms
    FROM a
    WHERE t.namespace = a.namespace
    AND t.name = a.name
    AND CASE WHEN t.cursor_ms = a.was_ms THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
