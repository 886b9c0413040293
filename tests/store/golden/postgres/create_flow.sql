-- create_flow(partition_key, flow_id, graph_revision, now, raw_fields)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::uuid[]) = 1 AS one_flow_id,
    cardinality($4::bigint[]) = 1 AS one_graph_revision,
    cardinality($5::bigint[]) = 1 AS one_now,
    cardinality($6::text[]) = 1 AS one_raw_fields,
    ($2::bigint[])[1] AS partition_key,
    ($3::uuid[])[1] AS flow_id,
    ($4::bigint[])[1] AS graph_revision,
    ($5::bigint[])[1] AS now,
    ($6::text[])[1]::json AS raw_fields),
a AS (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_flow_id THEN s.flow_id ELSE u.flow_id END AS flow_id,
    CASE WHEN s.one_graph_revision THEN s.graph_revision ELSE u.graph_revision END AS graph_revision,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    CASE WHEN s.one_raw_fields THEN s.raw_fields ELSE u.raw_fields::json END AS raw_fields,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[]) WITH ORDINALITY AS u(partition_key, flow_id, graph_revision, now, raw_fields, n_)),
g AS (INSERT INTO ff_flow_core AS t (partition_key,
    flow_id,
    graph_revision,
    created_at_ms,
    raw_fields) SELECT a.partition_key,
    a.flow_id,
    a.graph_revision,
    a.now,
    a.raw_fields
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_flow_id) END
    FROM g;
