-- erase_limit_scope(scope_type, scope_id, kind, limit_id, namespace)

DELETE
    FROM ff_limit_scope
    WHERE scope_type = ?
    AND scope_id = ?
    AND kind = ?
    AND limit_id = ?
    AND namespace = ?;
