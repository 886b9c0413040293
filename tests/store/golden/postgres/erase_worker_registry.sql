-- erase_worker_registry(namespace, worker_instance_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.worker_instance_id AS worker_instance_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(namespace, worker_instance_id, n_)),
g AS (DELETE
    FROM ff_worker_registry AS t USING a
    WHERE t.namespace = a.namespace
    AND t.worker_instance_id = a.worker_instance_id RETURNING a.n_,
    a.now_ms_,
    t.namespace AS r_namespace,
    t.worker_instance_id AS r_worker_instance_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
