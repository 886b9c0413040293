-- add_schedule(namespace, name)

INSERT INTO ff_schedule (namespace,
    name,
    cursor_ms,
    paused)
    VALUES (?,
    ?,
    ?,
    0)
    ON CONFLICT DO NOTHING;
