-- revive_hmac_key(kid, now)

UPDATE ff_waitpoint_hmac
    SET active = 1,
    expires_at_ms = NULL,
    rotated_at_ms = ?
    WHERE kid = ?
    AND active = 0;
