-- heartbeat_worker(namespace, worker_instance_id, version, now, expires_at_ms)

SELECT namespace,
    worker_instance_id
    FROM ff_worker_registry
    WHERE namespace = ?
    AND worker_instance_id = ?
    AND version = ?
    AND expires_at_ms > ?;

UPDATE ff_worker_registry
    SET version = version + 1,
    last_heartbeat_ms = ?,
    expires_at_ms = ?
    WHERE namespace = ?
    AND worker_instance_id = ?;

INSERT INTO ff_worker_registry_event (namespace,
    worker_instance_id,
    event_kind,
    event_at_ms,
    reason)
    VALUES (?,
    ?,
    'heartbeat',
    ?,
    NULL);
