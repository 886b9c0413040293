-- apply_edge(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now, blocking_detail)

UPDATE ff_edge_group
    SET running_count = ?,
    group_state = ?,
    version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?
    AND version = ?;

UPDATE ff_edge
    SET edge_state = 'applied',
    applied_at_ms = ?,
    dep_state = 'unsatisfied'
    WHERE partition_key = ?
    AND flow_id = ?
    AND edge_id = ?;

UPDATE ff_exec_core
    SET lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'blocked_by_dependencies',
    blocking_reason = 'waiting_for_children',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'waiting_children',
    version = version + 1,
    last_transition_at = ?,
    last_mutation_at = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND lifecycle_phase IN ('runnable', 'submitted')
    AND terminal_outcome = 'none';
