-- touch_api_token(token_id, before)

UPDATE ff_api_token
    SET last_used_at_ms = ?
    WHERE token_id = ?
    AND (last_used_at_ms IS NULL OR last_used_at_ms <= ?);
