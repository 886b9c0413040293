-- set_quota_active(quota_policy_id, was, active)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.quota_policy_id AS quota_policy_id,
    u.was AS was,
    u.active AS active,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS u(quota_policy_id, was, active, n_)),
g AS (UPDATE ff_quota_policy AS t
    SET active_concurrency = a.active
    FROM a
    WHERE t.quota_policy_id = a.quota_policy_id
    AND CASE WHEN t.active_concurrency = a.was THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
