-- create_quota_policy(quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::uuid[]) = 1 AS one_quota_policy_id,
    cardinality($3::bigint[]) = 1 AS one_requests_per_window_seconds,
    cardinality($4::bigint[]) = 1 AS one_max_requests_per_window,
    cardinality($5::bigint[]) = 1 AS one_active_concurrency_cap,
    cardinality($6::bigint[]) = 1 AS one_jitter_ms,
    cardinality($7::bigint[]) = 1 AS one_now,
    ($2::uuid[])[1] AS quota_policy_id,
    ($3::bigint[])[1] AS requests_per_window_seconds,
    ($4::bigint[])[1] AS max_requests_per_window,
    ($5::bigint[])[1] AS active_concurrency_cap,
    ($6::bigint[])[1] AS jitter_ms,
    ($7::bigint[])[1] AS now),
a AS (SELECT CASE WHEN s.one_quota_policy_id THEN s.quota_policy_id ELSE u.quota_policy_id END AS quota_policy_id,
    CASE WHEN s.one_requests_per_window_seconds THEN s.requests_per_window_seconds ELSE u.requests_per_window_seconds END AS requests_per_window_seconds,
    CASE WHEN s.one_max_requests_per_window THEN s.max_requests_per_window ELSE u.max_requests_per_window END AS max_requests_per_window,
    CASE WHEN s.one_active_concurrency_cap THEN s.active_concurrency_cap ELSE u.active_concurrency_cap END AS active_concurrency_cap,
    CASE WHEN s.one_jitter_ms THEN s.jitter_ms ELSE u.jitter_ms END AS jitter_ms,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS u(quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, now, n_)),
g AS (INSERT INTO ff_quota_policy AS t (quota_policy_id,
    requests_per_window_seconds,
    max_requests_per_window,
    active_concurrency_cap,
    jitter_ms,
    created_at_ms,
    updated_at_ms) SELECT a.quota_policy_id,
    a.requests_per_window_seconds,
    a.max_requests_per_window,
    a.active_concurrency_cap,
    a.jitter_ms,
    a.now,
    a.now
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.quota_policy_id AS r_quota_policy_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(g.r_quota_policy_id) END
    FROM g;
