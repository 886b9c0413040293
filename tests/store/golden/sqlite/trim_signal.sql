-- trim_signal(partition_key, execution_id, signal_id)

DELETE
    FROM ff_signal
    WHERE partition_key = ?
    AND execution_id = ?
    AND signal_id = ?;
