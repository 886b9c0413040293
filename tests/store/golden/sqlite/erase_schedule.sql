-- erase_schedule(namespace, name)

DELETE
    FROM ff_schedule
    WHERE namespace = ?
    AND name = ?;
