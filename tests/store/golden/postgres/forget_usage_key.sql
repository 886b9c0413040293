-- forget_usage_key(budget_id, key, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.key AS key,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::bigint[]) WITH ORDINALITY AS u(budget_id, key, now, n_)),
g AS (DELETE
    FROM ff_budget_usage_dedup AS t USING a
    WHERE t.budget_id = a.budget_id
    AND t.dedup_key = a.key
    AND CASE WHEN t.expires_at_ms <= a.now THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.budget_id AS r_budget_id,
    t.dedup_key AS r_dedup_key)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
