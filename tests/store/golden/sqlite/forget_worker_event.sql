-- forget_worker_event(event_id)

DELETE
    FROM ff_worker_registry_event
    WHERE event_id = ?;
