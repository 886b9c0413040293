-- add_schedule(namespace, name)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_namespace,
    cardinality($3::text[]) = 1 AS one_name,
    ($2::text[])[1] AS namespace,
    ($3::text[])[1] AS name),
a AS (SELECT CASE WHEN s.one_namespace THEN s.namespace ELSE u.namespace END AS namespace,
    CASE WHEN s.one_name THEN s.name ELSE u.name END AS name,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(namespace, name, n_)),
g AS (INSERT INTO ff_schedule AS t (namespace,
    name,
    cursor_ms,
    paused) SELECT a.namespace,
    a.name,
    a.now_ms_,
    0
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.namespace AS r_namespace,
    t.name AS r_name)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_namespace) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_name) END
    FROM g;
