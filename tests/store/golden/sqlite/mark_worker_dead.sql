-- mark_worker_dead(namespace, worker_instance_id, now, reason)

SELECT namespace,
    worker_instance_id
    FROM ff_worker_registry
    WHERE namespace = ?
    AND worker_instance_id = ?;

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
    'marked_dead',
    ?,
    ?);
