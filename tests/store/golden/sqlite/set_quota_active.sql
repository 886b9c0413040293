-- set_quota_active(quota_policy_id, was, active)

UPDATE ff_quota_policy
    SET active_concurrency = ?
    WHERE quota_policy_id = ?
    AND active_concurrency = ?;
