-- add_member(partition_key, flow_id, version, raw_fields, execution_id, member_version, now)

UPDATE ff_flow_core
    SET version = version + 1,
    graph_revision = graph_revision + 1,
    raw_fields = ?,
    settled_at_ms = NULL
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

UPDATE ff_exec_core
    SET flow_id = ?,
    version = version + 1,
    last_mutation_at = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;
