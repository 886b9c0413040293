-- reset_edge_group(partition_key, flow_id, downstream_eid, version, running_count, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.downstream_eid AS downstream_eid,
    u.version AS version,
    u.running_count AS running_count,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, version, running_count, now, n_)),
g AS (UPDATE ff_edge_group AS t
    SET fail_count = 0,
    skip_count = 0,
    running_count = a.running_count,
    group_state = 'pending'::text,
    satisfied_at_ms = NULL::bigint,
    cancel_siblings_pending_flag = 0,
    cancel_siblings_pending_members = '[]'::json,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND t.downstream_eid = a.downstream_eid
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    t.partition_key AS r_partition_key,
    t.downstream_eid AS r_downstream_eid,
    t.flow_id AS r_flow_id),
w2 AS (DELETE
    FROM ff_pending_cancel_groups AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id
    AND t.downstream_eid = g.r_downstream_eid),
w1 AS (UPDATE ff_edge AS t
    SET dep_state = 'unsatisfied'::text,
    last_resolved_at_ms = NULL::bigint,
    reset_at_ms = g.now
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.downstream_eid = g.r_downstream_eid
    AND t.flow_id = g.r_flow_id
    AND t.dep_state = 'impossible'::text)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
