-- cancel_flow_header_in_pages(partition_key, flow_id, version, now, raw_fields, reason, grace_until_ms, cancellation_policy, namespace, details)

SELECT flow_id,
    partition_key
    FROM ff_flow_core
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

UPDATE ff_flow_core
    SET version = version + 1,
    public_flow_state = 'cancelled',
    terminal_at_ms = coalesce(terminal_at_ms, ?),
    raw_fields = ?,
    settled_at_ms = NULL
    WHERE partition_key = ?
    AND flow_id = ?;

INSERT INTO ff_cancel_backlog (partition_key,
    flow_id,
    requested_at_ms,
    requester,
    reason,
    grace_until_ms,
    cancellation_policy,
    status)
    VALUES (?,
    ?,
    ?,
    '',
    ?,
    ?,
    ?,
    'listing')
    ON CONFLICT (partition_key,
    flow_id) DO UPDATE
    SET requested_at_ms = coalesce(requested_at_ms,
    ?),
    status = 'listing',
    grace_until_ms = ?,
    cancellation_policy = ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    details)
    VALUES ('flow_cancel_requested',
    ?,
    ?,
    ?,
    ?,
    ?);
