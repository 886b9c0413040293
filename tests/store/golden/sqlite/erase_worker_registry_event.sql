-- erase_worker_registry_event(event_id, namespace)

DELETE
    FROM ff_worker_registry_event
    WHERE event_id = ?
    AND namespace = ?;
