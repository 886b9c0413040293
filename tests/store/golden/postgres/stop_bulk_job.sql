-- stop_bulk_job(job_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.job_id AS job_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[]) WITH ORDINALITY AS u(job_id, n_)),
g AS (UPDATE ff_bulk_job AS t
    SET state = 'stopped'::text,
    version = t.version + 1,
    updated_at_ms = a.now_ms_,
    ended_at_ms = a.now_ms_
    FROM a
    WHERE t.job_id = a.job_id
    AND CASE WHEN t.state = 'running'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
