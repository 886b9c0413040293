-- move_ready_execution(partition_key, execution_id, version, lane_id, budget_ids, quota_policy_id, gate, now, details)

SELECT partition_key,
    execution_id,
    namespace,
    instance_tag
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND NOT EXISTS (SELECT 1 FROM ff_lane_registry WHERE lane_id = ? AND state IN ('draining', 'disabled'));

UPDATE ff_exec_core
    SET reserved_for = NULL,
    reserved_until_ms = NULL,
    lane_id = ?,
    budget_ids = ?,
    quota_policy_id = ?,
    gate = ?,
    version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'eligible_now',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'waiting',
    blocked_on = NULL
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
    VALUES ('moved',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
