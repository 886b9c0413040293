-- leave_cancel_pages(partition_key, flow_id)

UPDATE ff_cancel_backlog
    SET status = 'pending'
    WHERE partition_key = ?
    AND flow_id = ?
    AND status = 'listing';
