-- owe_cancel_member(partition_key, flow_id, execution_id)

INSERT INTO ff_cancel_backlog_member (partition_key,
    flow_id,
    execution_id)
    VALUES (?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
