-- reset_budget(budget_id, version, next_reset_at_ms, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.version AS version,
    u.next_reset_at_ms AS next_reset_at_ms,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS u(budget_id, version, next_reset_at_ms, now, n_)),
g AS (UPDATE ff_budget_policy AS t
    SET version = t.version + 1,
    last_breach_at_ms = NULL::bigint,
    last_breach_dim = NULL::text,
    next_reset_at_ms = a.next_reset_at_ms,
    updated_at_ms = a.now
    FROM a
    WHERE t.budget_id = a.budget_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.budget_id),
w1 AS (DELETE
    FROM ff_budget_usage_by_exec AS t USING g
    WHERE t.budget_id = g.budget_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
