-- apply_late_edge(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now)

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
