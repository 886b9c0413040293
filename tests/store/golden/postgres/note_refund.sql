-- note_refund(quota_policy_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.quota_policy_id AS quota_policy_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[]) WITH ORDINALITY AS u(quota_policy_id, n_)),
g AS (UPDATE ff_quota_policy AS t
    SET version = t.version + 1
    FROM a
    WHERE t.quota_policy_id = a.quota_policy_id RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
