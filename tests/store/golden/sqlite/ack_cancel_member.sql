-- ack_cancel_member(partition_key, flow_id, execution_id)

DELETE
    FROM ff_cancel_backlog_member
    WHERE partition_key = ?
    AND flow_id = ?
    AND execution_id = ?;
