-- set_flow_fields(partition_key, flow_id, version, raw_fields)

UPDATE ff_flow_core
    SET version = version + 1,
    raw_fields = ?
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;
