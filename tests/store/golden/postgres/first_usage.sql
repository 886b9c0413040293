-- first_usage(budget_id, dimension, by)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::uuid[]) = 1 AS one_budget_id,
    cardinality($3::text[]) = 1 AS one_dimension,
    cardinality($4::bigint[]) = 1 AS one_by,
    ($2::uuid[])[1] AS budget_id,
    ($3::text[])[1] AS dimension,
    ($4::bigint[])[1] AS by),
a AS (SELECT CASE WHEN s.one_budget_id THEN s.budget_id ELSE u.budget_id END AS budget_id,
    CASE WHEN s.one_dimension THEN s.dimension ELSE u.dimension END AS dimension,
    CASE WHEN s.one_by THEN s.by ELSE u.by END AS by,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::uuid[], $3::text[], $4::bigint[]) WITH ORDINALITY AS u(budget_id, dimension, by, n_)),
g AS (INSERT INTO ff_budget_usage AS t (budget_id,
    dimensions_key,
    current_value,
    updated_at_ms) SELECT a.budget_id,
    a.dimension,
    a.by,
    a.now_ms_
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.budget_id AS r_budget_id,
    t.dimensions_key AS r_dimensions_key)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(g.r_budget_id) END,
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(g.r_dimensions_key) END
    FROM g;
