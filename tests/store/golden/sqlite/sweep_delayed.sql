-- sweep_delayed()

SELECT partition_key,
    execution_id,
    lane_id
    FROM ff_exec_core
    WHERE lifecycle_phase = 'runnable'
    AND eligibility_state = 'not_eligible_until_time'
    AND delay_until_ms <= ?
    AND eligibility_state = 'not_eligible_until_time'
    ORDER BY delay_until_ms,
    execution_id LIMIT ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
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
