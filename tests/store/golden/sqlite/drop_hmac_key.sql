-- drop_hmac_key(kid)

DELETE
    FROM ff_waitpoint_hmac
    WHERE kid = ?
    AND active = 0;
