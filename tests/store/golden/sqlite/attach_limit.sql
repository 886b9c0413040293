-- attach_limit(scope_type, scope_id, kind, limit_id, namespace)

INSERT INTO ff_limit_scope (scope_type,
    scope_id,
    kind,
    limit_id,
    namespace,
    attached_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
