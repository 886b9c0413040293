-- hold_ready_for_budget(partition_key, execution_id, version, now, detail, blocked_on, details)

SELECT partition_key,
    execution_id,
    namespace,
    instance_tag
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND eligibility_state = 'eligible_now';

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    reserved_for = NULL,
    reserved_until_ms = NULL,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'blocked_by_budget',
    blocking_reason = 'waiting_for_budget',
    blocking_detail = ?,
    terminal_outcome = 'none',
    public_state = 'rate_limited',
    blocked_on = ?
    WHERE partition_key = ?
    AND execution_id = ?;

DELETE
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('budget_breached',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
