-- create_waitpoint(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names, approvers)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.lease_epoch AS lease_epoch,
    u.attempt_index AS attempt_index,
    u.lease_id AS lease_id,
    u.worker_instance_id AS worker_instance_id,
    u.waitpoint_id AS waitpoint_id,
    u.token_kid AS token_kid,
    u.token_digest AS token_digest,
    u.created_at_ms AS created_at_ms,
    u.expires_at_ms AS expires_at_ms,
    u.waitpoint_key AS waitpoint_key,
    u.payload_schema AS payload_schema,
    u.required_signal_names::json AS required_signal_names,
    u.approvers::json AS approvers,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::uuid[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[]) WITH ORDINALITY AS u(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, waitpoint_id, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, payload_schema, required_signal_names, approvers, n_)),
g AS (UPDATE ff_exec_core AS t
    SET last_mutation_at = a.now_ms_
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.lease_epoch = a.lease_epoch
    AND t.attempt_index = a.attempt_index
    AND t.current_lease_id = a.lease_id
    AND t.current_worker_instance_id = a.worker_instance_id
    AND t.lifecycle_phase = 'active'::text
    AND t.ownership_state = 'leased'::text
    AND t.lease_expires_at_ms > a.now_ms_
    AND (t.attempt_timeout_at_ms IS NULL OR t.attempt_timeout_at_ms > a.now_ms_) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.waitpoint_id,
    a.execution_id,
    a.token_kid,
    a.token_digest,
    a.created_at_ms,
    a.expires_at_ms,
    a.waitpoint_key,
    a.attempt_index,
    a.payload_schema,
    a.required_signal_names,
    a.approvers),
w1 AS (INSERT INTO ff_waitpoint_pending (partition_key,
    waitpoint_id,
    execution_id,
    token_kid,
    token_digest,
    created_at_ms,
    expires_at_ms,
    waitpoint_key,
    attempt_index,
    payload_schema,
    state,
    required_signal_names,
    approvers) SELECT g.partition_key,
    g.waitpoint_id,
    g.execution_id,
    g.token_kid,
    g.token_digest,
    g.created_at_ms,
    g.expires_at_ms,
    g.waitpoint_key,
    g.attempt_index,
    g.payload_schema,
    'pending'::text,
    g.required_signal_names,
    g.approvers
    FROM g
    ON CONFLICT DO NOTHING RETURNING 1)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    CASE WHEN (SELECT count(*) FROM w1) = (SELECT count(*) FROM g) THEN 0 ELSE ('ff_refused_at_1' || (SELECT left(count(*)::text, 0) FROM g))::int END
    FROM g;
