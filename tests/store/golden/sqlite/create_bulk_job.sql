-- create_bulk_job(job_id, namespace, action, args)

INSERT INTO ff_bulk_job (job_id,
    namespace,
    action,
    args,
    created_at_ms,
    updated_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
