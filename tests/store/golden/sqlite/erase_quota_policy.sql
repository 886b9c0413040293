-- erase_quota_policy(quota_policy_id, namespace)

DELETE
    FROM ff_quota_policy
    WHERE quota_policy_id = ?
    AND namespace = ?;

DELETE
    FROM ff_quota_window
    WHERE quota_policy_id = ?;

DELETE
    FROM ff_quota_admitted
    WHERE quota_policy_id = ?;

INSERT INTO ff_outbox_trim (channel,
    event_id) SELECT 'ff_operator_event',
    highest
    FROM (SELECT max(event_id) AS highest FROM ff_operator_event WHERE execution_id = ?)
    WHERE highest IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = max(event_id,
    excluded.event_id);

DELETE
    FROM ff_operator_event
    WHERE execution_id = ?;
