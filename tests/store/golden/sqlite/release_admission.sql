-- release_admission(quota_policy_id, execution_id)

DELETE
    FROM ff_quota_admitted
    WHERE quota_policy_id = ?
    AND execution_id = ?;
