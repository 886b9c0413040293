-- forget_task(namespace, name, version, old_quota_policy_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.version AS version,
    u.old_quota_policy_id AS old_quota_policy_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::uuid[]) WITH ORDINALITY AS u(namespace, name, version, old_quota_policy_id, n_)),
g AS (DELETE
    FROM ff_task AS t USING a
    WHERE t.namespace = a.namespace
    AND t.name = a.name
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.name,
    a.old_quota_policy_id,
    t.namespace AS r_namespace,
    t.name AS r_name),
w1 AS (DELETE
    FROM ff_limit_scope AS t USING g
    WHERE t.scope_type = 'task'::text
    AND t.scope_id = g.name
    AND t.kind = 'quota'::text
    AND t.limit_id = g.old_quota_policy_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
