-- revoke_api_token(token_id, version, now, details)

UPDATE ff_api_token
    SET revoked_at_ms = ?,
    version = version + 1
    WHERE token_id = ?
    AND version = ?
    AND revoked_at_ms IS NULL;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    details)
    VALUES ('token_revoked',
    ?,
    ?,
    0,
    ?);
