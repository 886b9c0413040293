-- create_flow(partition_key, flow_id, graph_revision, now, raw_fields)

INSERT INTO ff_flow_core (partition_key,
    flow_id,
    graph_revision,
    created_at_ms,
    raw_fields)
    VALUES (?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
