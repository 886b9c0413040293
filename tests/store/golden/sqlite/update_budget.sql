-- update_budget(budget_id, version, policy_json, next_reset_at_ms, namespace, details)

UPDATE ff_budget_policy
    SET version = version + 1,
    policy_json = ?,
    next_reset_at_ms = ?,
    changed_at_ms = ?,
    updated_at_ms = ?
    WHERE budget_id = ?
    AND version = ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    details)
    VALUES ('budget_updated',
    ?,
    ?,
    0,
    ?,
    ?);
