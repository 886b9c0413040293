-- grow_usage(budget_id, dimension, at_least, at_most, by)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.dimension AS dimension,
    u.at_least AS at_least,
    u.at_most AS at_most,
    u.by AS by,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS u(budget_id, dimension, at_least, at_most, by, n_)),
g AS (UPDATE ff_budget_usage AS t
    SET current_value = t.current_value + a.by,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.budget_id = a.budget_id
    AND t.dimensions_key = a.dimension
    AND CASE WHEN t.current_value >= a.at_least
    AND t.current_value <= a.at_most THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
