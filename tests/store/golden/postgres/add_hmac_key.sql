-- add_hmac_key(kid, secret, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_kid,
    cardinality($3::bytea[]) = 1 AS one_secret,
    cardinality($4::bigint[]) = 1 AS one_now,
    ($2::text[])[1] AS kid,
    ($3::bytea[])[1] AS secret,
    ($4::bigint[])[1] AS now),
a AS (SELECT CASE WHEN s.one_kid THEN s.kid ELSE u.kid END AS kid,
    CASE WHEN s.one_secret THEN s.secret ELSE u.secret END AS secret,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY AS u(kid, secret, now, n_)),
g AS (INSERT INTO ff_waitpoint_hmac AS t (kid,
    secret,
    rotated_at_ms,
    active) SELECT a.kid,
    a.secret,
    a.now,
    1
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.kid AS r_kid)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_kid) END
    FROM g;
