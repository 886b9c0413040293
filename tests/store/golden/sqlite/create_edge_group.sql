-- create_edge_group(partition_key, flow_id, downstream_eid, policy, k_target, running_count)

INSERT INTO ff_edge_group (partition_key,
    flow_id,
    downstream_eid,
    policy,
    k_target,
    running_count)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
