-- set_quota_closed(quota_policy_id, until_ms)

UPDATE ff_quota_policy
    SET version = version + 1,
    updated_at_ms = ?,
    closed_until_ms = ?
    WHERE quota_policy_id = ?;
