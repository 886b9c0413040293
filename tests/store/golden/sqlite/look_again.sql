-- look_again(partition_key, execution_id, suspension_id)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND current_suspension_id = ?;
