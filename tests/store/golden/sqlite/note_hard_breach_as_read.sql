-- note_hard_breach_as_read(budget_id, version, count, dimension)

UPDATE ff_budget_policy
    SET breach_count = breach_count + ?,
    last_breach_at_ms = ?,
    last_breach_dim = ?,
    updated_at_ms = ?
    WHERE budget_id = ?
    AND version = ?;
