-- rebind_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.waitpoint_id AS waitpoint_id,
    u.version AS version,
    u.now AS now,
    u.suspension_id AS suspension_id,
    u.required_signal_names::json AS required_signal_names,
    u.token_kid AS token_kid,
    u.token_digest AS token_digest,
    u.created_at_ms AS created_at_ms,
    u.expires_at_ms AS expires_at_ms,
    u.waitpoint_key AS waitpoint_key,
    u.attempt_index AS attempt_index,
    u.payload_schema AS payload_schema,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::text[]) WITH ORDINALITY AS u(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema, n_)),
g AS (UPDATE ff_waitpoint_pending AS t
    SET state = 'active'::text,
    activated_at_ms = a.now,
    suspension_id = a.suspension_id,
    required_signal_names = a.required_signal_names,
    token_kid = a.token_kid,
    token_digest = a.token_digest,
    created_at_ms = a.created_at_ms,
    expires_at_ms = a.expires_at_ms,
    waitpoint_key = a.waitpoint_key,
    attempt_index = a.attempt_index,
    payload_schema = a.payload_schema,
    last_signal_at_ms = NULL::bigint,
    satisfied_at_ms = NULL::bigint,
    closed_at_ms = NULL::bigint,
    close_reason = NULL::text,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.waitpoint_id = a.waitpoint_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
