-- pause_schedule(namespace, name)

UPDATE ff_schedule
    SET paused = 1
    WHERE namespace = ?
    AND name = ?
    AND paused = 0;
