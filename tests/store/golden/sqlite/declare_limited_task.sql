-- declare_limited_task(namespace, name, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)

INSERT INTO ff_task (namespace,
    name,
    fingerprint,
    task_version,
    quota_policy_id,
    head,
    declaration,
    declared_at_ms,
    changed_at_ms,
    last_seen_ms,
    registered_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;

INSERT INTO ff_limit_scope (scope_type,
    scope_id,
    kind,
    limit_id,
    namespace,
    attached_at_ms)
    VALUES ('task',
    ?,
    'quota',
    ?,
    ?,
    ?)
    ON CONFLICT (scope_type,
    scope_id,
    kind,
    limit_id) DO UPDATE
    SET attached_at_ms = ?;
