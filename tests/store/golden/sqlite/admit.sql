-- admit(quota_policy_id, execution_id, dimension, execution_uuid)

INSERT INTO ff_quota_admitted (quota_policy_id,
    execution_id,
    admitted_at_ms)
    VALUES (?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;

INSERT INTO ff_quota_window (quota_policy_id,
    dimension,
    admitted_at_ms,
    execution_id)
    VALUES (?,
    ?,
    ?,
    ?)
    ON CONFLICT (quota_policy_id,
    dimension,
    admitted_at_ms,
    execution_id) DO UPDATE
    SET dimension = ?;
