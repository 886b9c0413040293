-- give_input(partition_key, execution_id, version, payload)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    payload = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?
    AND lifecycle_phase IN ('submitted', 'runnable', 'active', 'suspended');
