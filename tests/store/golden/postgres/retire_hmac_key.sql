-- retire_hmac_key(kid, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.kid AS kid,
    u.expires_at_ms AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS u(kid, expires_at_ms, n_)),
g AS (UPDATE ff_waitpoint_hmac AS t
    SET active = 0,
    expires_at_ms = a.expires_at_ms
    FROM a
    WHERE t.kid = a.kid
    AND CASE WHEN t.active = 1 THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
