-- copy_hmac_key(kid, secret, rotated_at_ms, active, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_kid,
    cardinality($3::bytea[]) = 1 AS one_secret,
    cardinality($4::bigint[]) = 1 AS one_rotated_at_ms,
    cardinality($5::bigint[]) = 1 AS one_active,
    cardinality($6::bigint[]) = 1 AS one_expires_at_ms,
    ($2::text[])[1] AS kid,
    ($3::bytea[])[1] AS secret,
    ($4::bigint[])[1] AS rotated_at_ms,
    ($5::bigint[])[1] AS active,
    ($6::bigint[])[1] AS expires_at_ms),
a AS (SELECT CASE WHEN s.one_kid THEN s.kid ELSE u.kid END AS kid,
    CASE WHEN s.one_secret THEN s.secret ELSE u.secret END AS secret,
    CASE WHEN s.one_rotated_at_ms THEN s.rotated_at_ms ELSE u.rotated_at_ms END AS rotated_at_ms,
    CASE WHEN s.one_active THEN s.active ELSE u.active END AS active,
    CASE WHEN s.one_expires_at_ms THEN s.expires_at_ms ELSE u.expires_at_ms END AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS u(kid, secret, rotated_at_ms, active, expires_at_ms, n_)),
g AS (INSERT INTO ff_waitpoint_hmac AS t (kid,
    secret,
    rotated_at_ms,
    active,
    expires_at_ms) SELECT a.kid,
    a.secret,
    a.rotated_at_ms,
    a.active,
    a.expires_at_ms
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.kid AS r_kid)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_kid) END
    FROM g;
