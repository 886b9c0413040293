-- see_task(namespace, name, version, declared_at_ms)

UPDATE ff_task
    SET declared_at_ms = ?,
    last_seen_ms = ?,
    version = version + 1
    WHERE namespace = ?
    AND name = ?
    AND version = ?;
