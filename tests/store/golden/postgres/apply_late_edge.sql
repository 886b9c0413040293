-- apply_late_edge(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.downstream_eid AS downstream_eid,
    u.version AS version,
    u.running_count AS running_count,
    u.group_state AS group_state,
    u.edge_id AS edge_id,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now, n_)),
g AS (UPDATE ff_edge_group AS t
    SET running_count = a.running_count,
    group_state = a.group_state,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND t.downstream_eid = a.downstream_eid
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.flow_id,
    a.edge_id,
    a.now),
w1 AS (UPDATE ff_edge AS t
    SET edge_state = 'applied'::text,
    applied_at_ms = g.now,
    dep_state = 'unsatisfied'::text
    FROM g
    WHERE t.partition_key = g.partition_key
    AND t.flow_id = g.flow_id
    AND t.edge_id = g.edge_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
