-- redeclare_task(namespace, name, version, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)

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
