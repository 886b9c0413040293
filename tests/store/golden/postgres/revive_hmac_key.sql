-- revive_hmac_key(kid, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.kid AS kid,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS u(kid, now, n_)),
g AS (UPDATE ff_waitpoint_hmac AS t
    SET active = 1,
    expires_at_ms = NULL::bigint,
    rotated_at_ms = a.now
    FROM a
    WHERE t.kid = a.kid
    AND CASE WHEN t.active = 0 THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
