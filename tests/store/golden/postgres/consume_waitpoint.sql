-- consume_waitpoint(partition_key, waitpoint_id, version, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.waitpoint_id AS waitpoint_id,
    u.version AS version,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS u(partition_key, waitpoint_id, version, now, n_)),
g AS (UPDATE ff_waitpoint_pending AS t
    SET state = 'closed'::text,
    close_reason = 'resumed'::text,
    satisfied_at_ms = a.now,
    closed_at_ms = a.now,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.waitpoint_id = a.waitpoint_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
