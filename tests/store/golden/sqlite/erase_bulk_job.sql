-- erase_bulk_job(job_id, namespace)

DELETE
    FROM ff_bulk_job
    WHERE job_id = ?
    AND namespace = ?;

INSERT INTO ff_outbox_trim (channel,
    event_id) SELECT 'ff_operator_event',
    highest
    FROM (SELECT max(event_id) AS highest FROM ff_operator_event WHERE execution_id = ?)
    WHERE highest IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = max(event_id,
    excluded.event_id);

DELETE
    FROM ff_operator_event
    WHERE execution_id = ?;
