-- cancel_flow_header(partition_key, flow_id, version, now, raw_fields, namespace, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.version AS version,
    u.now AS now,
    u.raw_fields::json AS raw_fields,
    u.namespace AS namespace,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY AS u(partition_key, flow_id, version, now, raw_fields, namespace, details, n_)),
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
    a.now,
    a.namespace,
    a.details,
    t.flow_id AS r_flow_id,
    t.partition_key AS r_partition_key),
w1 AS (INSERT INTO ff_operator_event (event_type,
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
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
