-- trim_flow(partition_key, flow_id, version)

DELETE
    FROM ff_flow_core
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

DELETE
    FROM ff_edge
    WHERE partition_key = ?
    AND flow_id = ?;

DELETE
    FROM ff_edge_group
    WHERE partition_key = ?
    AND flow_id = ?;

DELETE
    FROM ff_pending_cancel_groups
    WHERE partition_key = ?
    AND flow_id = ?;

DELETE
    FROM ff_cancel_backlog
    WHERE partition_key = ?
    AND flow_id = ?;

DELETE
    FROM ff_cancel_backlog_member
    WHERE partition_key = ?
    AND flow_id = ?;

DELETE
    FROM ff_flow_summary
    WHERE partition_key = ?
    AND flow_id = ?;

INSERT INTO ff_outbox_trim (channel,
    event_id) SELECT 'ff_operator_event',
    highest
    FROM (SELECT max(event_id) AS highest FROM ff_operator_event WHERE partition_key = ? AND execution_id = ?)
    WHERE highest IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = max(event_id,
    excluded.event_id);

DELETE
    FROM ff_operator_event
    WHERE partition_key = ?
    AND execution_id = ?;
