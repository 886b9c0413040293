-- declare_task(namespace, name, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)

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
