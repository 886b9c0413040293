-- suspension_timeout_resume(partition_key, execution_id, version, now, signal_id, waitpoint_id, suspension_id, attempt_index, lane_id)

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
    current_suspension_id = NULL,
    current_waitpoint_id = NULL,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'eligible_now',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'waiting',
    delay_until_ms = NULL
    WHERE partition_key = ?
    AND execution_id = ?;

UPDATE ff_suspension_current
    SET closed_at_ms = ?,
    close_reason = 'timed_out_auto_resume',
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND closed_at_ms IS NULL;

UPDATE ff_waitpoint_pending
    SET state = 'closed',
    closed_at_ms = ?,
    close_reason = 'timed_out_auto_resume',
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND state IN ('active');

INSERT INTO ff_signal (partition_key,
    execution_id,
    signal_id,
    waitpoint_id,
    suspension_id,
    attempt_index,
    signal_name,
    signal_category,
    source_type,
    source_identity,
    created_at_ms,
    accepted_at_ms,
    observed_effect,
    matched)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    'timeout',
    'system',
    'engine',
    'suspension_timeout',
    ?,
    ?,
    'timed_out_auto_resume',
    1)
    ON CONFLICT DO NOTHING;
