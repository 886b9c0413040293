-- resolve_edges_and_release(partition_key, flow_id, downstream_eid, version, success_count, fail_count, skip_count, running_count, group_state, satisfied_at_ms, cancel_siblings_pending_flag, cancel_siblings_pending_members, cancel_siblings_reason, satisfied, now, impossible, told, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms)

SELECT partition_key,
    downstream_eid
    FROM ff_edge_group
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?
    AND version = ?;

UPDATE ff_edge_group
    SET success_count = ?,
    fail_count = ?,
    skip_count = ?,
    running_count = ?,
    group_state = ?,
    satisfied_at_ms = ?,
    cancel_siblings_pending_flag = ?,
    cancel_siblings_pending_members = ?,
    cancel_siblings_reason = ?,
    version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?;

UPDATE ff_edge
    SET dep_state = 'satisfied',
    last_resolved_at_ms = ?
    WHERE partition_key = ?
    AND flow_id = ?
    AND edge_id IN (SELECT uuid_blob(value) FROM json_each(?));

UPDATE ff_edge
    SET dep_state = 'impossible',
    last_resolved_at_ms = ?
    WHERE partition_key = ?
    AND flow_id = ?
    AND edge_id IN (SELECT uuid_blob(value) FROM json_each(?));

UPDATE ff_completion_event
    SET dispatched_at_ms = ?
    WHERE execution_id IN (SELECT uuid_blob(value) FROM json_each(?))
    AND dispatched_at_ms IS NULL;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    eligibility_state = ?,
    blocking_reason = ?,
    public_state = ?,
    ownership_state = 'unowned',
    blocking_detail = ''
    WHERE partition_key = ?
    AND execution_id = ?
    AND lifecycle_phase = 'runnable'
    AND eligibility_state = 'blocked_by_dependencies';
