-- note_hard_breach_as_read(budget_id, version, count, dimension)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.version AS version,
    u.count AS count,
    u.dimension AS dimension,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) WITH ORDINALITY AS u(budget_id, version, count, dimension, n_)),
g AS (UPDATE ff_budget_policy AS t
    SET breach_count = t.breach_count + a.count,
    last_breach_at_ms = a.now_ms_,
    last_breach_dim = a.dimension,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.budget_id = a.budget_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
