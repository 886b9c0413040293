-- move_schedule(namespace, name, was_ms, cursor_ms)

UPDATE ff_schedule
    SET cursor_ms = ?
    WHERE namespace = ?
    AND name = ?
    AND cursor_ms = ?;
