-- stream_forget_frame(partition_key, execution_id, attempt_index, ts_ms, seq, now)

DELETE
    FROM ff_stream_frame
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?
    AND ts_ms = ?
    AND seq = ?
    AND expires_at_ms <= ?;
