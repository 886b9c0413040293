-- remember_usage_again(budget_id, key, now, outcome, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.key AS key,
    u.now AS now,
    u.outcome::json AS outcome,
    u.expires_at_ms AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]) WITH ORDINALITY AS u(budget_id, key, now, outcome, expires_at_ms, n_)),
g AS (UPDATE ff_budget_usage_dedup AS t
    SET outcome_json = a.outcome,
    applied_at_ms = a.now,
    expires_at_ms = a.expires_at_ms
    FROM a
    WHERE t.budget_id = a.budget_id
    AND t.dedup_key = a.key
    AND CASE WHEN t.expires_at_ms <= a.now THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
