-- update_quota_policy(quota_policy_id, version, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms, namespace, details)

UPDATE ff_quota_policy
    SET requests_per_window_seconds = ?,
    max_requests_per_window = ?,
    active_concurrency_cap = ?,
    jitter_ms = ?,
    version = version + 1,
    changed_at_ms = ?,
    updated_at_ms = ?
    WHERE quota_policy_id = ?
    AND version = ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    details)
    VALUES ('quota_policy_updated',
    ?,
    ?,
    0,
    ?,
    ?);
