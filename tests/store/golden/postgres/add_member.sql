-- add_member(partition_key, flow_id, version, raw_fields, execution_id, member_version, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.version AS version,
    u.raw_fields::json AS raw_fields,
    u.execution_id AS execution_id,
    u.member_version AS member_version,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::uuid[], $7::bigint[], $8::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, version, raw_fields, execution_id, member_version, now, n_)),
g AS (UPDATE ff_flow_core AS t
    SET version = t.version + 1,
    graph_revision = t.graph_revision + 1,
    raw_fields = a.raw_fields,
    settled_at_ms = NULL::bigint
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.execution_id,
    a.member_version,
    a.flow_id,
    a.now),
w1 AS (UPDATE ff_exec_core AS t
    SET flow_id = g.flow_id,
    version = t.version + 1,
    last_mutation_at = g.now
    FROM g
    WHERE t.partition_key = g.partition_key
    AND t.execution_id = g.execution_id
    AND CASE WHEN t.version = g.member_version THEN true ELSE false END RETURNING 1)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    CASE WHEN (SELECT count(*) FROM w1) = (SELECT count(*) FROM g) THEN 0 ELSE ('ff_refused_at_1' || (SELECT left(count(*)::text, 0) FROM g))::int END
    FROM g;
