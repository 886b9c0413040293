-- release_blocked_with_input(partition_key, execution_id, version, eligibility_state, blocking_reason, public_state, payload, lane_id, delayed_until_ms)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    eligibility_state = ?,
    blocking_reason = ?,
    public_state = ?,
    ownership_state = 'unowned',
    blocking_detail = '',
    payload = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;
