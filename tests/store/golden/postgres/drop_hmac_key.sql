-- drop_hmac_key(kid)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.kid AS kid,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[]) WITH ORDINALITY AS u(kid, n_)),
g AS (DELETE
    FROM ff_waitpoint_hmac AS t USING a
    WHERE t.kid = a.kid
    AND CASE WHEN t.active = 0 THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.kid AS r_kid)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
