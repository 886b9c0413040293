-- stop_bulk_job(job_id)

UPDATE ff_bulk_job
    SET state = 'stopped',
    version = version + 1,
    updated_at_ms = ?,
    ended_at_ms = ?
    WHERE job_id = ?
    AND state = 'running';
