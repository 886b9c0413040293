-- owe_cancels(partition_key, flow_id, now, reason, grace_until_ms, cancellation_policy)

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
    'pending')
    ON CONFLICT DO NOTHING;
