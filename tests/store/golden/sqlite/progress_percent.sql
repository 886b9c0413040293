-- progress_percent(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, percent)

UPDATE ff_exec_core
    SET progress_updated_at = ?,
    last_mutation_at = ?,
    progress_pct = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND lease_epoch = ?
    AND attempt_index = ?
    AND current_lease_id = ?
    AND current_worker_instance_id = ?
    AND lifecycle_phase = 'active'
    AND ownership_state = 'leased'
    AND lease_expires_at_ms > ?
    AND (attempt_timeout_at_ms IS NULL OR attempt_timeout_at_ms > ?);
