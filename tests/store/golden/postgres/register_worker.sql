-- register_worker(namespace, worker_instance_id, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.worker_instance_id AS worker_instance_id,
    u.worker_id AS worker_id,
    u.lanes::text[] AS lanes,
    u.capabilities::text[] AS capabilities,
    u.liveness_ttl_ms AS liveness_ttl_ms,
    u.expires_at_ms AS expires_at_ms,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[]) WITH ORDINALITY AS u(namespace, worker_instance_id, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now, n_)),
i AS (INSERT INTO ff_worker_registry AS t (namespace,
    worker_instance_id,
    worker_id,
    lanes,
    capabilities,
    liveness_ttl_ms,
    expires_at_ms,
    last_heartbeat_ms,
    registered_at_ms) SELECT a.namespace,
    a.worker_instance_id,
    a.worker_id,
    a.lanes,
    a.capabilities,
    a.liveness_ttl_ms,
    a.expires_at_ms,
    a.now,
    a.now
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.namespace AS r_namespace,
    t.worker_instance_id AS r_worker_instance_id),
g AS MATERIALIZED (SELECT a.*,
    i.*
    FROM a JOIN i ON i.r_namespace = a.namespace
    AND i.r_worker_instance_id = a.worker_instance_id),
w1 AS (INSERT INTO ff_worker_registry_event (namespace,
    worker_instance_id,
    event_kind,
    event_at_ms,
    reason) SELECT g.r_namespace,
    g.r_worker_instance_id,
    'registered'::text,
    g.now,
    NULL::text
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
