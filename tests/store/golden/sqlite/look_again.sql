-- look_again(partition_key, execution_id, suspension_id)

UPDATE ff_suspension_current
    SET version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND suspension_id = ?;
