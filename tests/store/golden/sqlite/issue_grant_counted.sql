-- issue_grant_counted(partition_key, execution_id, version, worker_id, grant_ttl_ms, grant_id, kind, worker_instance_id, lane_id, capability_hash, worker_capabilities, route_snapshot_json, admission_summary)

SELECT partition_key,
    execution_id,
    quota_policy_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    reserved_for = ?,
    reserved_until_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_claim_grant (partition_key,
    execution_id,
    grant_id,
    kind,
    worker_id,
    worker_instance_id,
    lane_id,
    capability_hash,
    worker_capabilities,
    route_snapshot_json,
    admission_summary,
    grant_ttl_ms,
    issued_at_ms,
    expires_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    (? + ?))
    ON CONFLICT (partition_key,
    execution_id) DO UPDATE
    SET grant_id = ?,
    kind = ?,
    worker_id = ?,
    worker_instance_id = ?,
    lane_id = ?,
    capability_hash = ?,
    worker_capabilities = ?,
    route_snapshot_json = ?,
    admission_summary = ?,
    grant_ttl_ms = ?,
    issued_at_ms = ?,
    expires_at_ms = (? + ?);

INSERT INTO ff_quota_window (quota_policy_id,
    dimension,
    admitted_at_ms,
    execution_id)
    VALUES (?,
    'default',
    ?,
    ?)
    ON CONFLICT (quota_policy_id,
    dimension,
    admitted_at_ms,
    execution_id) DO UPDATE
    SET dimension = 'default';
