-- leave_cancel_queue(partition_key, flow_id, downstream_eid)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.downstream_eid AS downstream_eid,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, n_)),
g AS (DELETE
    FROM ff_pending_cancel_groups AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND t.downstream_eid = a.downstream_eid RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id,
    t.downstream_eid AS r_downstream_eid)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
