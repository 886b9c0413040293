-- mark_dispatched(event_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.event_id AS event_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[]) WITH ORDINALITY AS u(event_id, n_)),
g AS (UPDATE ff_completion_event AS t
    SET dispatched_at_ms = a.now_ms_
    FROM a
    WHERE t.event_id = a.event_id
    AND CASE WHEN t.dispatched_at_ms IS NULL THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
