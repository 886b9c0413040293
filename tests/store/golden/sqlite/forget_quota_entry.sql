-- forget_quota_entry(quota_policy_id, dimension, admitted_at_ms, execution_id)

DELETE
    FROM ff_quota_window
    WHERE quota_policy_id = ?
    AND dimension = ?
    AND admitted_at_ms = ?
    AND execution_id = ?;
