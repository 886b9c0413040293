-- create_api_token(token_id, name, digest, roles, namespace, lanes, created_by, expires_at_ms, now, details)

INSERT INTO ff_api_token (token_id,
    name,
    digest,
    roles,
    namespace,
    lanes,
    created_by,
    expires_at_ms,
    created_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    details)
    VALUES ('token_created',
    ?,
    ?,
    0,
    ?);
