-- erase_budget_policy(budget_id, namespace)

DELETE
    FROM ff_budget_policy
    WHERE budget_id = ?
    AND namespace = ?;

DELETE
    FROM ff_budget_usage
    WHERE budget_id = ?;

DELETE
    FROM ff_budget_usage_dedup
    WHERE budget_id = ?;

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
