-- add_hmac_key(kid, secret, now)

INSERT INTO ff_waitpoint_hmac (kid,
    secret,
    rotated_at_ms,
    active)
    VALUES (?,
    ?,
    ?,
    1)
    ON CONFLICT DO NOTHING;
