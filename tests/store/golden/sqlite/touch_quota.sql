-- touch_quota(quota_policy_id, version)

UPDATE ff_quota_policy
    SET version = version + 1
    WHERE quota_policy_id = ?
    AND version = ?;
