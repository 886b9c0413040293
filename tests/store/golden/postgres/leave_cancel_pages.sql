-- leave_cancel_pages(partition_key, flow_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[]) WITH ORDINALITY AS u(partition_key, flow_id, n_)),
g AS (UPDATE ff_cancel_backlog AS t
    SET status = 'pending'::text
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND CASE WHEN t.status = 'listing'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
