-- update_quota_policy(quota_policy_id, version, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, namespace, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.quota_policy_id AS quota_policy_id,
    u.version AS version,
    u.requests_per_window_seconds AS requests_per_window_seconds,
    u.max_requests_per_window AS max_requests_per_window,
    u.active_concurrency_cap AS active_concurrency_cap,
    u.jitter_ms AS jitter_ms,
    u.namespace AS namespace,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[]) WITH ORDINALITY AS u(quota_policy_id, version, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, namespace, details, n_)),
g AS (UPDATE ff_quota_policy AS t
    SET requests_per_window_seconds = a.requests_per_window_seconds,
    max_requests_per_window = a.max_requests_per_window,
    active_concurrency_cap = a.active_concurrency_cap,
    jitter_ms = a.jitter_ms,
    version = t.version + 1,
    changed_at_ms = a.now_ms_,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.quota_policy_id = a.quota_policy_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.quota_policy_id,
    a.namespace,
    a.details),
w1 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    details) SELECT 'quota_policy_updated'::text,
    g.now_ms_,
    g.quota_policy_id,
    0,
    g.namespace,
    g.details
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
