-- enter_cancel_queue(partition_key, flow_id, downstream_eid, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::uuid[]) = 1 AS one_flow_id,
    cardinality($4::uuid[]) = 1 AS one_downstream_eid,
    cardinality($5::bigint[]) = 1 AS one_now,
    ($2::bigint[])[1] AS partition_key,
    ($3::uuid[])[1] AS flow_id,
    ($4::uuid[])[1] AS downstream_eid,
    ($5::bigint[])[1] AS now),
a AS (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_flow_id THEN s.flow_id ELSE u.flow_id END AS flow_id,
    CASE WHEN s.one_downstream_eid THEN s.downstream_eid ELSE u.downstream_eid END AS downstream_eid,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, now, n_)),
g AS (INSERT INTO ff_pending_cancel_groups AS t (partition_key,
    flow_id,
    downstream_eid,
    enqueued_at_ms) SELECT a.partition_key,
    a.flow_id,
    a.downstream_eid,
    a.now
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
