-- tag_signals(partition_key, waitpoint_id, version, suspension_id)

SELECT partition_key,
    execution_id,
    waitpoint_id
    FROM ff_waitpoint_pending
    WHERE partition_key = ?
    AND waitpoint_id = ?
    AND version = ?;

UPDATE ff_waitpoint_pending
    SET version = version + 1
    WHERE partition_key = ?
    AND waitpoint_id = ?;

UPDATE ff_signal
    SET suspension_id = ?
    WHERE partition_key = ?
    AND execution_id = ?
    AND waitpoint_id = ?;
