-- attach_limit(scope_type, scope_id, kind, limit_id)

INSERT INTO ff_limit_scope (scope_type,
    scope_id,
    kind,
    limit_id,
    attached_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
