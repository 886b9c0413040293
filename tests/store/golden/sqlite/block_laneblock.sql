-- block_laneblock(partition_key, execution_id, version, now, detail)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'blocked_by_lane_state',
    blocking_reason = 'paused_by_policy',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'waiting'
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;
