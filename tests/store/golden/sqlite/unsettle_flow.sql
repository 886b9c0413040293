-- unsettle_flow(partition_key, flow_id)

UPDATE ff_flow_core
    SET settled_at_ms = NULL
    WHERE partition_key = ?
    AND flow_id = ?;
