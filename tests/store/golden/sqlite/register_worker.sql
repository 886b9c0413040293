-- register_worker(namespace, worker_instance_id, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)

INSERT INTO ff_worker_registry (namespace,
    worker_instance_id,
    worker_id,
    lanes,
    capabilities,
    liveness_ttl_ms,
    expires_at_ms,
    last_heartbeat_ms,
    registered_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;

INSERT INTO ff_worker_registry_event (namespace,
    worker_instance_id,
    event_kind,
    event_at_ms,
    reason)
    VALUES (?,
    ?,
    'registered',
    ?,
    NULL);
