-- owe_cancel_member(partition_key, flow_id, execution_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::uuid[]) = 1 AS one_flow_id,
    cardinality($4::text[]) = 1 AS one_execution_id,
    ($2::bigint[])[1] AS partition_key,
    ($3::uuid[])[1] AS flow_id,
    ($4::text[])[1] AS execution_id),
a AS (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_flow_id THEN s.flow_id ELSE u.flow_id END AS flow_id,
    CASE WHEN s.one_execution_id THEN s.execution_id ELSE u.execution_id END AS execution_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::text[]) WITH ORDINALITY AS u(partition_key, flow_id, execution_id, n_)),
g AS (INSERT INTO ff_cancel_backlog_member AS t (partition_key,
    flow_id,
    execution_id) SELECT a.partition_key,
    a.flow_id,
    a.execution_id
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id,
    t.execution_id AS r_execution_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_flow_id) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_execution_id) END
    FROM g;
