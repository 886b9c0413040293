-- delete_execution(partition_key, execution_id, version, wire_id, now, details)

SELECT partition_key,
    flow_id,
    namespace,
    idempotency_key,
    execution_id,
    instance_tag
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase IN ('terminal', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM ff_edge WHERE partition_key = ? AND upstream_eid = ? AND dep_state = 'unsatisfied');

DELETE
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_attempt
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_suspension_current
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_waitpoint_pending
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_signal
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_signal_dedup
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_suspend_dedup
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_budget_usage_by_exec
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_stream_meta
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_stream_frame
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_stream_summary
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_step
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_outbox_trim (channel,
    event_id) SELECT 'ff_lease_event',
    highest
    FROM (SELECT max(event_id) AS highest FROM ff_lease_event WHERE partition_key = ? AND execution_id = ?)
    WHERE highest IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = max(event_id,
    excluded.event_id);

DELETE
    FROM ff_lease_event
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_outbox_trim (channel,
    event_id) SELECT 'ff_completion_event',
    highest
    FROM (SELECT max(event_id) AS highest FROM ff_completion_event WHERE partition_key = ? AND execution_id = ?)
    WHERE highest IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = max(event_id,
    excluded.event_id);

DELETE
    FROM ff_completion_event
    WHERE partition_key = ?
    AND execution_id = ?;

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

INSERT INTO ff_outbox_trim (channel,
    event_id) SELECT 'ff_signal_event',
    highest
    FROM (SELECT max(event_id) AS highest FROM ff_signal_event WHERE partition_key = ? AND execution_id = ?)
    WHERE highest IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = max(event_id,
    excluded.event_id);

DELETE
    FROM ff_signal_event
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_cancel_backlog_member
    WHERE partition_key = ?
    AND flow_id = ?
    AND execution_id = ?;

DELETE
    FROM ff_idempotency
    WHERE namespace = ?
    AND idempotency_key = ?
    AND execution_id = ?
    AND (expires_at_ms IS NULL OR expires_at_ms <= ?);

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('deleted',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
