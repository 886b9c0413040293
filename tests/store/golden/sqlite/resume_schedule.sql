-- resume_schedule(namespace, name)

UPDATE ff_schedule
    SET paused = 0,
    cursor_ms = ?
    WHERE namespace = ?
    AND name = ?
    AND paused = 1;
