-- create_budget(budget_id, namespace, policy_json, scope_type, scope_id, enforcement_mode, next_reset_at_ms, created_at_ms, updated_at_ms)

INSERT INTO ff_budget_policy (budget_id,
    namespace,
    policy_json,
    scope_type,
    scope_id,
    enforcement_mode,
    next_reset_at_ms,
    created_at_ms,
    updated_at_ms)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
