-- create_api_token(token_id, name, digest, roles, namespace, lanes, created_by, expires_at_ms, now, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.token_id AS token_id,
    u.name AS name,
    u.digest AS digest,
    u.roles AS roles,
    u.namespace AS namespace,
    u.lanes AS lanes,
    u.created_by AS created_by,
    u.expires_at_ms AS expires_at_ms,
    u.now AS now,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::text[]) WITH ORDINALITY AS u(token_id, name, digest, roles, namespace, lanes, created_by, expires_at_ms, now, details, n_)),
i AS (INSERT INTO ff_api_token AS t (token_id,
    name,
    digest,
    roles,
    namespace,
    lanes,
    created_by,
    expires_at_ms,
    created_at_ms) SELECT a.token_id,
    a.name,
    a.digest,
    a.roles,
    a.namespace,
    a.lanes,
    a.created_by,
    a.expires_at_ms,
    a.now
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.token_id AS r_token_id),
g AS MATERIALIZED (SELECT a.*,
    i.*
    FROM a JOIN i ON i.r_token_id = a.token_id),
w1 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    details) SELECT 'token_created'::text,
    g.now,
    g.token_id,
    0,
    g.details
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
