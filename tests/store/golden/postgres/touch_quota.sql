-- touch_quota(quota_policy_id, version)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.quota_policy_id AS quota_policy_id,
    u.version AS version,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS u(quota_policy_id, version, n_)),
g AS (UPDATE ff_quota_policy AS t
    SET version = t.version + 1
    FROM a
    WHERE t.quota_policy_id = a.quota_policy_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
