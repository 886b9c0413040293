-- erase_worker_registry_event(event_id, namespace)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.event_id AS event_id,
    u.namespace AS namespace,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::text[]) WITH ORDINALITY AS u(event_id, namespace, n_)),
g AS (DELETE
    FROM ff_worker_registry_event AS t USING a
    WHERE t.event_id = a.event_id
    AND CASE WHEN t.namespace = a.namespace THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.event_id AS r_event_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
