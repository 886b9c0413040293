-- create_edge(partition_key, flow_id, edge_id, upstream_eid, downstream_eid, edge_policy, now)

INSERT INTO ff_edge (partition_key,
    flow_id,
    edge_id,
    upstream_eid,
    downstream_eid,
    policy,
    edge_state,
    dep_state,
    applied_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    'applied',
    'unsatisfied',
    ?)
    ON CONFLICT DO NOTHING;
