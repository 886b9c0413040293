-- cancel_flow_header_in_pages(partition_key, flow_id, version, now, raw_fields, reason, grace_until_ms, cancellation_policy, namespace, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.version AS version,
    u.now AS now,
    u.raw_fields::json AS raw_fields,
    u.reason AS reason,
    u.grace_until_ms AS grace_until_ms,
    u.cancellation_policy AS cancellation_policy,
    u.namespace AS namespace,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::text[], $10::text[], $11::text[]) WITH ORDINALITY AS u(partition_key, flow_id, version, now, raw_fields, reason, grace_until_ms, cancellation_policy, namespace, details, n_)),
g AS (UPDATE ff_flow_core AS t
    SET version = t.version + 1,
    public_flow_state = 'cancelled'::text,
    terminal_at_ms = coalesce(t.terminal_at_ms, a.now),
    raw_fields = a.raw_fields,
    settled_at_ms = NULL::bigint
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.flow_id,
    a.now,
    a.reason,
    a.grace_until_ms,
    a.cancellation_policy,
    a.namespace,
    a.details,
    t.flow_id AS r_flow_id,
    t.partition_key AS r_partition_key),
w2 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    details) SELECT 'flow_cancel_requested'::text,
    g.now,
    g.r_flow_id,
    g.r_partition_key,
    g.namespace,
    g.details
    FROM g),
w1 AS (INSERT INTO ff_cancel_backlog AS t (partition_key,
    flow_id,
    requested_at_ms,
    requester,
    reason,
    grace_until_ms,
    cancellation_policy,
    status) SELECT g.partition_key,
    g.flow_id,
    g.now,
    ''::text,
    g.reason,
    g.grace_until_ms,
    g.cancellation_policy,
    'listing'::text
    FROM g
    ON CONFLICT (partition_key,
    flow_id) DO UPDATE
    SET requested_at_ms = coalesce(t.requested_at_ms,
    (SELECT now_ms FROM clk)),
    status = EXCLUDED.status,
    grace_until_ms = EXCLUDED.grace_until_ms,
    cancellation_policy = EXCLUDED.cancellation_policy)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
