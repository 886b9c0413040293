-- stage_edge(partition_key, flow_id, version, raw_fields, edge_id, upstream_eid, downstream_eid, edge_policy)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.version AS version,
    u.raw_fields::json AS raw_fields,
    u.edge_id AS edge_id,
    u.upstream_eid AS upstream_eid,
    u.downstream_eid AS downstream_eid,
    u.edge_policy::json AS edge_policy,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::uuid[], $7::uuid[], $8::uuid[], $9::text[]) WITH ORDINALITY AS u(partition_key, flow_id, version, raw_fields, edge_id, upstream_eid, downstream_eid, edge_policy, n_)),
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
    a.flow_id,
    a.edge_id,
    a.upstream_eid,
    a.downstream_eid,
    a.edge_policy),
w1 AS (INSERT INTO ff_edge (partition_key,
    flow_id,
    edge_id,
    upstream_eid,
    downstream_eid,
    policy) SELECT g.partition_key,
    g.flow_id,
    g.edge_id,
    g.upstream_eid,
    g.downstream_eid,
    g.edge_policy
    FROM g
    ON CONFLICT DO NOTHING RETURNING 1)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    CASE WHEN (SELECT count(*) FROM w1) = (SELECT count(*) FROM g) THEN 0 ELSE ('ff_refused_at_1' || (SELECT left(count(*)::text, 0) FROM g))::int END
    FROM g;
