-- drop_silent_worker(namespace, worker_instance_id, version, now)

SELECT namespace,
    worker_instance_id
    FROM ff_worker_registry
    WHERE namespace = ?
    AND worker_instance_id = ?
    AND version = ?;

DELETE
    FROM ff_worker_registry
    WHERE namespace = ?
    AND worker_instance_id = ?;

INSERT INTO ff_worker_registry_event (namespace,
    worker_instance_id,
    event_kind,
    event_at_ms,
    reason)
    VALUES (?,
    ?,
    'ttl_swept',
    ?,
    NULL);
