-- stage_edge(partition_key, flow_id, version, raw_fields, edge_id, upstream_eid, downstream_eid, edge_policy)

UPDATE ff_flow_core
    SET version = version + 1,
    graph_revision = graph_revision + 1,
    raw_fields = ?,
    settled_at_ms = NULL
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

INSERT INTO ff_edge (partition_key,
    flow_id,
    edge_id,
    upstream_eid,
    downstream_eid,
    policy)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
