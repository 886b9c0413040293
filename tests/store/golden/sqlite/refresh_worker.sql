-- refresh_worker(namespace, worker_instance_id, version, worker_id, lanes, capabilities, liveness_ttl_ms, expires_at_ms, now)

SELECT namespace,
    worker_instance_id
    FROM ff_worker_registry
    WHERE namespace = ?
    AND worker_instance_id = ?
    AND version = ?;

UPDATE ff_worker_registry
    SET worker_id = ?,
    lanes = ?,
    capabilities = ?,
    liveness_ttl_ms = ?,
    expires_at_ms = ?,
    version = version + 1,
    last_heartbeat_ms = ?
    WHERE namespace = ?
    AND worker_instance_id = ?;

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
