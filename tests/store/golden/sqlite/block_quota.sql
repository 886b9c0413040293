-- block_quota(partition_key, execution_id, version, now, detail)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'blocked_by_quota',
    blocking_reason = 'waiting_for_quota',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'rate_limited'
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;
