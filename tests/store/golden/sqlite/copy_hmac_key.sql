-- copy_hmac_key(kid, secret, rotated_at_ms, active, expires_at_ms)

INSERT INTO ff_waitpoint_hmac (kid,
    secret,
    rotated_at_ms,
    active,
    expires_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
