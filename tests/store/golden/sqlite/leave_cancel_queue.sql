-- leave_cancel_queue(partition_key, flow_id, downstream_eid)

DELETE
    FROM ff_pending_cancel_groups
    WHERE partition_key = ?
    AND flow_id = ?
    AND downstream_eid = ?;
