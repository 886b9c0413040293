-- create_children_flow(parent_partition, parent_execution_id, namespace, partition_key, flow_id, graph_revision, now, raw_fields)

INSERT INTO ff_flow_core (partition_key,
    flow_id,
    graph_revision,
    created_at_ms,
    raw_fields,
    parent_partition,
    parent_execution_id) SELECT ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?
    WHERE EXISTS (SELECT 1 FROM ff_exec_core WHERE partition_key = ? AND execution_id = ? AND namespace = ? AND lifecycle_phase IN ('submitted', 'runnable', 'pending', 'blocked', 'eligible', 'active', 'suspended'))
    ON CONFLICT DO NOTHING;
