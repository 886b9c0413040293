-- retire_hmac_key(kid, expires_at_ms)

UPDATE ff_waitpoint_hmac
    SET active = 0,
    expires_at_ms = ?
    WHERE kid = ?
    AND active = 1;
