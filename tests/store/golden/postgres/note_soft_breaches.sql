-- note_soft_breaches(budget_id, count)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.count AS count,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS u(budget_id, count, n_)),
g AS (UPDATE ff_budget_policy AS t
    SET soft_breach_count = t.soft_breach_count + a.count,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.budget_id = a.budget_id RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
