-- create_children_flow(parent_partition, parent_execution_id, namespace, partition_key, flow_id, graph_revision, now, raw_fields)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_parent_partition,
    cardinality($3::uuid[]) = 1 AS one_parent_execution_id,
    cardinality($4::text[]) = 1 AS one_namespace,
    cardinality($5::bigint[]) = 1 AS one_partition_key,
    cardinality($6::uuid[]) = 1 AS one_flow_id,
    cardinality($7::bigint[]) = 1 AS one_graph_revision,
    cardinality($8::bigint[]) = 1 AS one_now,
    cardinality($9::text[]) = 1 AS one_raw_fields,
    ($2::bigint[])[1] AS parent_partition,
    ($3::uuid[])[1] AS parent_execution_id,
    ($4::text[])[1] AS namespace,
    ($5::bigint[])[1] AS partition_key,
    ($6::uuid[])[1] AS flow_id,
    ($7::bigint[])[1] AS graph_revision,
    ($8::bigint[])[1] AS now,
    ($9::text[])[1]::json AS raw_fields),
a AS MATERIALIZED (SELECT CASE WHEN s.one_parent_partition THEN s.parent_partition ELSE u.parent_partition END AS parent_partition,
    CASE WHEN s.one_parent_execution_id THEN s.parent_execution_id ELSE u.parent_execution_id END AS parent_execution_id,
    CASE WHEN s.one_namespace THEN s.namespace ELSE u.namespace END AS namespace,
    CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_flow_id THEN s.flow_id ELSE u.flow_id END AS flow_id,
    CASE WHEN s.one_graph_revision THEN s.graph_revision ELSE u.graph_revision END AS graph_revision,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    CASE WHEN s.one_raw_fields THEN s.raw_fields ELSE u.raw_fields::json END AS raw_fields,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::text[], $5::bigint[], $6::uuid[], $7::bigint[], $8::bigint[], $9::text[]) WITH ORDINALITY AS u(parent_partition, parent_execution_id, namespace, partition_key, flow_id, graph_revision, now, raw_fields, n_)),
h AS MATERIALIZED (SELECT a.n_
    FROM a,
    ff_exec_core AS o
    WHERE o.partition_key = a.parent_partition
    AND o.execution_id = a.parent_execution_id
    AND CASE WHEN o.namespace = a.namespace
    AND o.lifecycle_phase IN ('submitted', 'runnable', 'pending', 'blocked', 'eligible', 'active', 'suspended') THEN true ELSE false END
    ORDER BY o.partition_key,
    o.execution_id FOR SHARE OF o),
g AS (INSERT INTO ff_flow_core AS t (partition_key,
    flow_id,
    graph_revision,
    created_at_ms,
    raw_fields,
    parent_partition,
    parent_execution_id) SELECT a.partition_key,
    a.flow_id,
    a.graph_revision,
    a.now,
    a.raw_fields,
    a.parent_partition,
    a.parent_execution_id
    FROM a
    WHERE a.n_ IN (SELECT h.n_ FROM h)
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($5::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($5::bigint[]) THEN array_agg(g.r_flow_id) END
    FROM g;
