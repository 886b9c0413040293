-- mark_dispatched(event_id)

UPDATE ff_completion_event
    SET dispatched_at_ms = ?
    WHERE event_id = ?
    AND dispatched_at_ms IS NULL;
