-- heartbeat_worker(namespace, worker_instance_id, version, now, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.worker_instance_id AS worker_instance_id,
    u.version AS version,
    u.now AS now,
    u.expires_at_ms AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS u(namespace, worker_instance_id, version, now, expires_at_ms, n_)),
g AS (UPDATE ff_worker_registry AS t
    SET version = t.version + 1,
    last_heartbeat_ms = a.now,
    expires_at_ms = a.expires_at_ms
    FROM a
    WHERE t.namespace = a.namespace
    AND t.worker_instance_id = a.worker_instance_id
    AND CASE WHEN t.version = a.version
    AND t.expires_at_ms > a.now THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    t.namespace AS r_namespace,
    t.worker_instance_id AS r_worker_instance_id),
w1 AS (INSERT INTO ff_worker_registry_event (namespace,
    worker_instance_id,
    event_kind,
    event_at_ms,
    reason) SELECT g.r_namespace,
    g.r_worker_instance_id,
    'heartbeat'::text,
    g.now,
    NULL::text
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
