-- touch_edge_group(partition_key, flow_id, downstream_eid, version)

UPDATE ff_edge_group
    SET version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?
    AND version = ?;
