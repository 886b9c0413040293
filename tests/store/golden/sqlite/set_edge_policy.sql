-- set_edge_policy(partition_key, flow_id, version, downstream_eid, group_version, policy, k_target)

UPDATE ff_flow_core
    SET version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

UPDATE ff_edge_group
    SET policy = ?,
    k_target = ?,
    success_count = 0,
    fail_count = 0,
    skip_count = 0,
    running_count = 0,
    group_state = 'pending',
    version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?
    AND version = ?;
