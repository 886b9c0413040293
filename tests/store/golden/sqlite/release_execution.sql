-- release_execution(partition_key, execution_id, version, now, details)

SELECT execution_id,
    partition_key,
    namespace,
    instance_tag,
    lane_id
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_transition_at = ?,
    lifecycle_phase = 'runnable',
    ownership_state = 'unowned',
    eligibility_state = 'eligible_now',
    blocking_reason = 'waiting_for_worker',
    blocking_detail = '',
    terminal_outcome = 'none',
    public_state = 'waiting',
    delay_until_ms = NULL,
    blocked_on = NULL
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('released',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
