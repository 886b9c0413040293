-- admit(quota_policy_id, execution_id, dimension, execution_uuid)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.quota_policy_id AS quota_policy_id,
    u.execution_id AS execution_id,
    u.dimension AS dimension,
    u.execution_uuid AS execution_uuid,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[]) WITH ORDINALITY AS u(quota_policy_id, execution_id, dimension, execution_uuid, n_)),
i AS (INSERT INTO ff_quota_admitted AS t (quota_policy_id,
    execution_id,
    admitted_at_ms) SELECT a.quota_policy_id,
    a.execution_id,
    a.now_ms_
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.quota_policy_id AS r_quota_policy_id,
    t.execution_id AS r_execution_id),
g AS MATERIALIZED (SELECT a.*,
    i.*
    FROM a JOIN i ON i.r_quota_policy_id = a.quota_policy_id
    AND i.r_execution_id = a.execution_id),
w1 AS (INSERT INTO ff_quota_window AS t (quota_policy_id,
    dimension,
    admitted_at_ms,
    execution_id) SELECT g.quota_policy_id,
    g.dimension,
    g.now_ms_,
    g.execution_uuid
    FROM g
    ON CONFLICT (quota_policy_id,
    dimension,
    admitted_at_ms,
    execution_id) DO UPDATE
    SET dimension = EXCLUDED.dimension)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
