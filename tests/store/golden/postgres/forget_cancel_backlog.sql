-- forget_cancel_backlog(partition_key, flow_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[]) WITH ORDINALITY AS u(partition_key, flow_id, n_)),
g AS (DELETE
    FROM ff_cancel_backlog AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND CASE WHEN t.status = 'pending'::text
    AND NOT EXISTS (SELECT 1 FROM ff_cancel_backlog_member AS o WHERE o.partition_key = a.partition_key AND o.flow_id = a.flow_id) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
