-- change_priority(partition_key, execution_id, version, now, priority, details)

SELECT execution_id,
    partition_key,
    namespace,
    instance_tag
    FROM ff_exec_core
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    priority = ?
    WHERE partition_key = ?
    AND execution_id = ?;

INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details)
    VALUES ('priority_changed',
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);
