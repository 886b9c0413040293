-- create_bulk_job(job_id, namespace, action, args)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::uuid[]) = 1 AS one_job_id,
    cardinality($3::text[]) = 1 AS one_namespace,
    cardinality($4::text[]) = 1 AS one_action,
    cardinality($5::text[]) = 1 AS one_args,
    ($2::uuid[])[1] AS job_id,
    ($3::text[])[1] AS namespace,
    ($4::text[])[1] AS action,
    ($5::text[])[1]::json AS args),
a AS (SELECT CASE WHEN s.one_job_id THEN s.job_id ELSE u.job_id END AS job_id,
    CASE WHEN s.one_namespace THEN s.namespace ELSE u.namespace END AS namespace,
    CASE WHEN s.one_action THEN s.action ELSE u.action END AS action,
    CASE WHEN s.one_args THEN s.args ELSE u.args::json END AS args,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS u(job_id, namespace, action, args, n_)),
g AS (INSERT INTO ff_bulk_job AS t (job_id,
    namespace,
    action,
    args,
    created_at_ms,
    updated_at_ms) SELECT a.job_id,
    a.namespace,
    a.action,
    a.args,
    a.now_ms_,
    a.now_ms_
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.job_id AS r_job_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(g.r_job_id) END
    FROM g;
