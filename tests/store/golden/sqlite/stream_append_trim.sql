-- stream_append_trim(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames, trim_durable, trim_ts_ms, trim_summary, trim_best_effort)

UPDATE ff_stream_meta
    SET frame_count = ?,
    total_bytes = ?,
    last_ts_ms = ?,
    last_seq = ?,
    durable_count = ?,
    has_durable_frame = ?,
    durable_trimmed = ?,
    summary_count = ?,
    summary_trimmed = ?,
    live_count = ?,
    live_trimmed = ?,
    ema_rate_hz = ?,
    last_append_ts_ms = ?,
    maxlen_applied_last = ?,
    version = version + 1
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?
    AND version = ?
    AND EXISTS (SELECT 1 FROM ff_exec_core WHERE partition_key = ? AND execution_id = ? AND lease_epoch = ? AND attempt_index = ? AND current_lease_id = ? AND current_worker_instance_id = ? AND lifecycle_phase = 'active' AND ownership_state = 'leased' AND lease_expires_at_ms > ?);

INSERT INTO ff_stream_frame (partition_key,
    execution_id,
    attempt_index,
    ts_ms,
    seq,
    mode,
    number,
    mode_number,
    client_seq,
    expires_at_ms,
    created_at_ms,
    fields)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?);

DELETE
    FROM ff_stream_frame
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?
    AND mode = 'durable'
    AND mode_number <= ?
    AND ts_ms <= ?;

DELETE
    FROM ff_stream_frame
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?
    AND mode = 'summary'
    AND mode_number <= ?
    AND mode != 'durable';

DELETE
    FROM ff_stream_frame
    WHERE partition_key = ?
    AND execution_id = ?
    AND attempt_index = ?
    AND mode = 'best_effort'
    AND mode_number <= ?
    AND mode != 'durable';
