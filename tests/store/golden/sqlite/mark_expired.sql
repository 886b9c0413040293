-- mark_expired(partition_key, execution_id, version)

SELECT execution_id,
    partition_key,
    namespace,
    instance_tag,
    current_lease_id,
    lease_epoch,
    current_worker_instance_id,
    lease_expires_at_ms
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND ownership_state = 'leased'
    AND lease_expires_at_ms <= ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'active',
    ownership_state = 'lease_expired_reclaimable',
    eligibility_state = 'not_applicable',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = 'lease expired,
    awaiting reclaim',
    terminal_outcome = 'none',
    public_state = 'active',
    attempt_state = 'attempt_interrupted',
    lease_expired_at = ?,
    expired_epoch = lease_epoch,
    interrupt_cause = 'lease_expired',
    attempt_timeout_at_ms = NULL,
    attempt_timeout_remaining_ms = attempt_timeout_ms
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_lease_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    lease_id,
    lease_epoch,
    worker_instance_id)
    VALUES ('expired',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
