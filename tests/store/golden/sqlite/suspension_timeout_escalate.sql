-- suspension_timeout_escalate(partition_key, execution_id, version, now, blocking_detail)

SELECT partition_key,
    execution_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase = 'suspended';

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'suspended',
    ownership_state = 'unowned',
    eligibility_state = 'not_applicable',
    blocking_reason = 'paused_by_operator',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'suspended'
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_suspension_current
    SET reason_code = 'waiting_for_operator_review',
    timeout_at_ms = NULL,
    timeout_behavior = NULL,
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND closed_at_ms IS NULL;
