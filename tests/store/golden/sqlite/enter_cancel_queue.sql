-- enter_cancel_queue(partition_key, flow_id, downstream_eid, now)

INSERT INTO ff_pending_cancel_groups (partition_key,
    flow_id,
    downstream_eid,
    enqueued_at_ms)
    VALUES (?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
