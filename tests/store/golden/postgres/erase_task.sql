-- erase_task(namespace, name)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(namespace, name, n_)),
g AS (DELETE
    FROM ff_task AS t USING a
    WHERE t.namespace = a.namespace
    AND t.name = a.name RETURNING a.n_,
    a.now_ms_,
    t.namespace AS r_namespace,
    t.name AS r_name)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
