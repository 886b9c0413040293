-- set_tags(partition_key, execution_id, version, tags, instance_tag)

UPDATE ff_exec_core
    SET version = version + 1,
    last_mutation_at = ?,
    tags = ?,
    instance_tag = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND version = ?;
