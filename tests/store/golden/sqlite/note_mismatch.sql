-- note_mismatch(partition_key, execution_id, version)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    last_capability_mismatch_at = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;
