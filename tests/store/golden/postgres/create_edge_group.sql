-- create_edge_group(partition_key, flow_id, downstream_eid, policy, k_target, running_count)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::uuid[]) = 1 AS one_flow_id,
    cardinality($4::uuid[]) = 1 AS one_downstream_eid,
    cardinality($5::text[]) = 1 AS one_policy,
    cardinality($6::bigint[]) = 1 AS one_k_target,
    cardinality($7::bigint[]) = 1 AS one_running_count,
    ($2::bigint[])[1] AS partition_key,
    ($3::uuid[])[1] AS flow_id,
    ($4::uuid[])[1] AS downstream_eid,
    ($5::text[])[1]::json AS policy,
    ($6::bigint[])[1] AS k_target,
    ($7::bigint[])[1] AS running_count),
a AS (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_flow_id THEN s.flow_id ELSE u.flow_id END AS flow_id,
    CASE WHEN s.one_downstream_eid THEN s.downstream_eid ELSE u.downstream_eid END AS downstream_eid,
    CASE WHEN s.one_policy THEN s.policy ELSE u.policy::json END AS policy,
    CASE WHEN s.one_k_target THEN s.k_target ELSE u.k_target END AS k_target,
    CASE WHEN s.one_running_count THEN s.running_count ELSE u.running_count END AS running_count,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, policy, k_target, running_count, n_)),
g AS (INSERT INTO ff_edge_group AS t (partition_key,
    flow_id,
    downstream_eid,
    policy,
    k_target,
    running_count) SELECT a.partition_key,
    a.flow_id,
    a.downstream_eid,
    a.policy,
    a.k_target,
    a.running_count
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id,
    t.downstream_eid AS r_downstream_eid)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_flow_id) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_downstream_eid) END
    FROM g;
