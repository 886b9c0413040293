-- forget_task(namespace, name, version, old_quota_policy_id)

DELETE
    FROM ff_task
    WHERE namespace = ?
    AND name = ?
    AND version = ?;

DELETE
    FROM ff_limit_scope
    WHERE scope_type = 'task'
    AND scope_id = ?
    AND kind = 'quota'
    AND limit_id = ?;
