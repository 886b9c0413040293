-- note_refund(quota_policy_id)

UPDATE ff_quota_policy
    SET version = version + 1
    WHERE quota_policy_id = ?;
