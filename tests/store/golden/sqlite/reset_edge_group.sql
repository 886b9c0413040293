-- reset_edge_group(partition_key, flow_id, downstream_eid, version, running_count, now)

SELECT partition_key,
    downstream_eid,
    flow_id
    FROM ff_edge_group
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?
    AND version = ?;

UPDATE ff_edge_group
    SET fail_count = 0,
    skip_count = 0,
    running_count = ?,
    group_state = 'pending',
    satisfied_at_ms = NULL,
    cancel_siblings_pending_flag = 0,
    cancel_siblings_pending_members = '[]',
    version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?;

UPDATE ff_edge
    SET dep_state = 'unsatisfied',
    last_resolved_at_ms = NULL,
    reset_at_ms = ?
    WHERE partition_key = ?
    AND downstream_eid = ?
    AND flow_id = ?
    AND dep_state = 'impossible';

DELETE
    FROM ff_pending_cancel_groups
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?;
