-- erase_task(namespace, name)

DELETE
    FROM ff_task
    WHERE namespace = ?
    AND name = ?;
