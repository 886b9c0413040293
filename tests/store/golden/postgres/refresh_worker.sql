-- refresh_worker(namespace, worker_instance_id, version, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.namespace AS namespace,
    u.worker_instance_id AS worker_instance_id,
    u.version AS version,
    u.worker_id AS worker_id,
    u.lanes::text[] AS lanes,
    u.capabilities::text[] AS capabilities,
    u.liveness_ttl_ms AS liveness_ttl_ms,
    u.expires_at_ms AS expires_at_ms,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[]) WITH ORDINALITY AS u(namespace, worker_instance_id, version, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now, n_)),
g AS (UPDATE ff_worker_registry AS t
    SET worker_id = a.worker_id,
    lanes = a.lanes,
    capabilities = a.capabilities,
    liveness_ttl_ms = a.liveness_ttl_ms,
    expires_at_ms = a.expires_at_ms,
    version = t.version + 1,
    last_heartbeat_ms = a.now
    FROM a
    WHERE t.namespace = a.namespace
    AND t.worker_instance_id = a.worker_instance_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
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
    'registered'::text,
    g.now,
    NULL::text
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
