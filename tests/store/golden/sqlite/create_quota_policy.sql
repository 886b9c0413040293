-- create_quota_policy(quota_policy_id, namespace, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, now)

INSERT INTO ff_quota_policy (quota_policy_id,
    namespace,
    requests_per_window_seconds,
    max_requests_per_window,
    active_concurrency_cap,
    jitter_ms,
    created_at_ms,
    updated_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
