-- finish_bulk_job(job_id, version, cursor, matched, changed, skipped, refused, errors, follow_ups)

UPDATE ff_bulk_job
    SET cursor = ?,
    matched = ?,
    changed = ?,
    skipped = ?,
    refused = ?,
    errors = ?,
    follow_ups = ?,
    version = version + 1,
    updated_at_ms = ?,
    state = 'completed',
    ended_at_ms = ?
    WHERE job_id = ?
    AND version = ?
    AND state = 'running';
