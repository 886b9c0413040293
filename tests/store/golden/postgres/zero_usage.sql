-- zero_usage(budget_id, dimension, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.dimension AS dimension,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::bigint[]) WITH ORDINALITY AS u(budget_id, dimension, now, n_)),
g AS (UPDATE ff_budget_usage AS t
    SET current_value = 0,
    last_reset_at_ms = a.now,
    updated_at_ms = a.now
    FROM a
    WHERE t.budget_id = a.budget_id
    AND t.dimensions_key = a.dimension RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
