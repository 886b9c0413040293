-- renew_untold(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id)

SELECT lease_last_renewed_at,
    lease_expires_at_ms,
    partition_key,
    execution_id,
    attempt_index,
    lease_epoch
    FROM ff_exec_core
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

UPDATE ff_exec_core
    SET lease_expires_at_ms = ?,
    lease_last_renewed_at = ?,
    lease_renewal_deadline = (? + (lease_renewal_deadline - lease_last_renewed_at))
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_attempt
    SET lease_expires_at_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?;
