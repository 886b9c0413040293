-- resume_execution(partition_key, execution_id, version, now, eligibility_state, blocking_reason, blocking_detail, public_state, delay_until_ms)

SELECT partition_key,
    execution_id,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase = 'suspended';

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = ?,
    blocking_reason = ?,
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = ?,
    current_suspension_id = NULL,
    current_waitpoint_id = NULL,
    delay_until_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_suspension_current
    SET closed_at_ms = ?,
    close_reason = 'resumed',
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND closed_at_ms IS NULL;

UPDATE ff_waitpoint_pending
    SET state = 'closed',
    closed_at_ms = ?,
    close_reason = 'resumed',
    version = version + 1,
    satisfied_at_ms = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND state IN ('active');
