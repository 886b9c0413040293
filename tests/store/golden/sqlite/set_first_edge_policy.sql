-- set_first_edge_policy(partition_key, flow_id, version, downstream_eid, policy, k_target)

UPDATE ff_flow_core
    SET version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

INSERT INTO ff_edge_group (partition_key,
    flow_id,
    downstream_eid,
    policy,
    k_target)
    VALUES (?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
