-- rotate_api_token(token_id, version, digest, former_digest, former_until_ms, now, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.token_id AS token_id,
    u.version AS version,
    u.digest AS digest,
    u.former_digest AS former_digest,
    u.former_until_ms AS former_until_ms,
    u.now AS now,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[], $8::text[]) WITH ORDINALITY AS u(token_id, version, digest, former_digest, former_until_ms, now, details, n_)),
g AS (UPDATE ff_api_token AS t
    SET digest = a.digest,
    former_digest = a.former_digest,
    former_until_ms = a.former_until_ms,
    rotated_at_ms = a.now,
    version = t.version + 1
    FROM a
    WHERE t.token_id = a.token_id
    AND CASE WHEN t.version = a.version
    AND t.revoked_at_ms IS NULL THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    a.token_id,
    a.details),
w1 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    details) SELECT 'token_rotated'::text,
    g.now,
    g.token_id,
    0,
    g.details
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
