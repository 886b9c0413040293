-- forget_cancel_backlog(partition_key, flow_id)

DELETE
    FROM ff_cancel_backlog
    WHERE partition_key = ?
    AND flow_id = ?
    AND status = 'pending'
    AND NOT EXISTS (SELECT 1 FROM ff_cancel_backlog_member WHERE partition_key = ? AND flow_id = ?);
