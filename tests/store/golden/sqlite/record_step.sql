-- record_step(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, position, name, kind, value)

INSERT INTO ff_step (partition_key,
    execution_id,
    position,
    name,
    kind,
    attempt_index,
    recorded_at_ms,
    value) SELECT ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?
    WHERE EXISTS (SELECT 1 FROM ff_exec_core WHERE partition_key = ? AND execution_id = ? AND lease_epoch = ? AND attempt_index = ? AND current_lease_id = ? AND current_worker_instance_id = ? AND lifecycle_phase = 'active' AND ownership_state = 'leased' AND lease_expires_at_ms > ?)
    ON CONFLICT DO NOTHING;
