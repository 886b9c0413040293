-- forget_quota_entry(quota_policy_id, dimension, admitted_at_ms, execution_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.quota_policy_id AS quota_policy_id,
    u.dimension AS dimension,
    u.admitted_at_ms AS admitted_at_ms,
    u.execution_id AS execution_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::bigint[], $5::uuid[]) WITH ORDINALITY AS u(quota_policy_id, dimension, admitted_at_ms, execution_id, n_)),
g AS (DELETE
    FROM ff_quota_window AS t USING a
    WHERE t.quota_policy_id = a.quota_policy_id
    AND t.dimension = a.dimension
    AND t.admitted_at_ms = a.admitted_at_ms
    AND t.execution_id = a.execution_id RETURNING a.n_,
    a.now_ms_,
    t.quota_policy_id AS r_quota_policy_id,
    t.dimension AS r_dimension,
    t.admitted_at_ms AS r_admitted_at_ms,
    t.execution_id AS r_execution_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
