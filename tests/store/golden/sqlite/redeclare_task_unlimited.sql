-- redeclare_task_unlimited(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms, old_quota_policy_id)

UPDATE ff_task
    SET fingerprint = ?,
    task_version = ?,
    quota_policy_id = ?,
    head = ?,
    declaration = ?,
    declared_at_ms = ?,
    changed_at_ms = ?,
    last_seen_ms = ?,
    version = version + 1
    WHERE namespace = ?
    AND name = ?
    AND version = ?;

DELETE
    FROM ff_limit_scope
    WHERE scope_type = 'task'
    AND scope_id = ?
    AND kind = 'quota'
    AND limit_id = ?;
