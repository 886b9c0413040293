-- declare_limited_task(namespace, name, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.fingerprint AS fingerprint,
    u.task_version AS task_version,
    u.quota_policy_id AS quota_policy_id,
    u.head AS head,
    u.declaration AS declaration,
    u.declared_at_ms AS declared_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::bigint[]) WITH ORDINALITY AS u(namespace, name, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms, n_)),
i AS (INSERT INTO ff_task AS t (namespace,
    name,
    fingerprint,
    task_version,
    quota_policy_id,
    head,
    declaration,
    declared_at_ms,
    changed_at_ms,
    last_seen_ms,
    registered_at_ms) SELECT a.namespace,
    a.name,
    a.fingerprint,
    a.task_version,
    a.quota_policy_id,
    a.head,
    a.declaration,
    a.declared_at_ms,
    a.now_ms_,
    a.now_ms_,
    a.now_ms_
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.namespace AS r_namespace,
    t.name AS r_name),
g AS MATERIALIZED (SELECT a.*,
    i.*
    FROM a JOIN i ON i.r_namespace = a.namespace
    AND i.r_name = a.name),
w1 AS (INSERT INTO ff_limit_scope AS t (scope_type,
    scope_id,
    kind,
    limit_id,
    namespace,
    attached_at_ms) SELECT 'task'::text,
    g.name,
    'quota'::text,
    g.quota_policy_id,
    g.namespace,
    g.now_ms_
    FROM g
    ON CONFLICT (scope_type,
    scope_id,
    kind,
    limit_id) DO UPDATE
    SET attached_at_ms = EXCLUDED.attached_at_ms)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
