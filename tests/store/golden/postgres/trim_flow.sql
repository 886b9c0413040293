-- trim_flow(partition_key, flow_id, version)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.version AS version,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, version, n_)),
g AS (DELETE
    FROM ff_flow_core AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id),
c0 AS (DELETE
    FROM ff_edge AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
c1 AS (DELETE
    FROM ff_edge_group AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
c2 AS (DELETE
    FROM ff_pending_cancel_groups AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
c3 AS (DELETE
    FROM ff_cancel_backlog AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
c4 AS (DELETE
    FROM ff_cancel_backlog_member AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
c5 AS (DELETE
    FROM ff_flow_summary AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id),
c6 AS (DELETE
    FROM ff_operator_event AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_flow_id),
o6 AS (INSERT INTO ff_outbox_trim AS x (channel,
    event_id) SELECT 'ff_operator_event',
    max(t.event_id)
    FROM ff_operator_event AS t JOIN g ON t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_flow_id
    HAVING max(t.event_id) IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = greatest(x.event_id,
    EXCLUDED.event_id))
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
