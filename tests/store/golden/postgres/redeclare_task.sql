-- redeclare_task(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.name AS name,
    u.version AS version,
    u.fingerprint AS fingerprint,
    u.task_version AS task_version,
    u.quota_policy_id AS quota_policy_id,
    u.head AS head,
    u.declaration AS declaration,
    u.declared_at_ms AS declared_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::uuid[], $8::text[], $9::text[], $10::bigint[]) WITH ORDINALITY AS u(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms, n_)),
g AS (UPDATE ff_task AS t
    SET fingerprint = a.fingerprint,
    task_version = a.task_version,
    quota_policy_id = a.quota_policy_id,
    head = a.head,
    declaration = a.declaration,
    declared_at_ms = a.declared_at_ms,
    changed_at_ms = a.now_ms_,
    last_seen_ms = a.now_ms_,
    version = t.version + 1
    FROM a
    WHERE t.namespace = a.namespace
    AND t.name = a.name
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
