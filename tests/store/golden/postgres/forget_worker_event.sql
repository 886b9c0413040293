-- forget_worker_event(event_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.event_id AS event_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[]) WITH ORDINALITY AS u(event_id, n_)),
g AS (DELETE
    FROM ff_worker_registry_event AS t USING a
    WHERE t.event_id = a.event_id RETURNING a.n_,
    a.now_ms_,
    t.event_id AS r_event_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
