-- advance_bulk_job(job_id, version, cursor, matched, changed, skipped, refused, errors, follow_ups)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.job_id AS job_id,
    u.version AS version,
    u.cursor AS cursor,
    u.matched AS matched,
    u.changed AS changed,
    u.skipped AS skipped,
    u.refused AS refused,
    u.errors::json AS errors,
    u.follow_ups::json AS follow_ups,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[]) WITH ORDINALITY AS u(job_id, version, cursor, matched, changed, skipped, refused, errors, follow_ups, n_)),
g AS (UPDATE ff_bulk_job AS t
    SET cursor = a.cursor,
    matched = a.matched,
    changed = a.changed,
    skipped = a.skipped,
    refused = a.refused,
    errors = a.errors,
    follow_ups = a.follow_ups,
    version = t.version + 1,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.job_id = a.job_id
    AND CASE WHEN t.version = a.version
    AND t.state = 'running'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
