-- drain_sibling_cancels(partition_key, flow_id, downstream_eid, version)

SELECT partition_key,
    flow_id,
    downstream_eid
    FROM ff_edge_group
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?
    AND version = ?;

UPDATE ff_edge_group
    SET cancel_siblings_pending_flag = 0,
    cancel_siblings_pending_members = '[]',
    version = version + 1
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?;

DELETE
    FROM ff_pending_cancel_groups
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?;
