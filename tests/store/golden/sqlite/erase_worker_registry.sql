-- erase_worker_registry(namespace, worker_instance_id)

DELETE
    FROM ff_worker_registry
    WHERE namespace = ?
    AND worker_instance_id = ?;
