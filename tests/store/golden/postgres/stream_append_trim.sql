-- stream_append_trim(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames, trim_durable, trim_ts_ms, trim_summary, trim_best_effort)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.attempt_index AS attempt_index,
    u.version AS version,
    u.lease_epoch AS lease_epoch,
    u.lease_id AS lease_id,
    u.worker_instance_id AS worker_instance_id,
    u.frame_count AS frame_count,
    u.total_bytes AS total_bytes,
    u.last_ts_ms AS last_ts_ms,
    u.last_seq AS last_seq,
    u.durable_count AS durable_count,
    u.has_durable_frame AS has_durable_frame,
    u.durable_trimmed AS durable_trimmed,
    u.summary_count AS summary_count,
    u.summary_trimmed AS summary_trimmed,
    u.live_count AS live_count,
    u.live_trimmed AS live_trimmed,
    u.ema_rate_hz AS ema_rate_hz,
    u.last_append_ts_ms AS last_append_ts_ms,
    u.maxlen_applied_last AS maxlen_applied_last,
    u.frames::json AS frames,
    u.trim_durable AS trim_durable,
    u.trim_ts_ms AS trim_ts_ms,
    u.trim_summary AS trim_summary,
    u.trim_best_effort AS trim_best_effort,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::uuid[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::double precision[], $21::bigint[], $22::bigint[], $23::text[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames, trim_durable, trim_ts_ms, trim_summary, trim_best_effort, n_)),
h AS MATERIALIZED (SELECT a.n_
    FROM a,
    ff_exec_core AS o
    WHERE o.partition_key = a.partition_key
    AND o.execution_id = a.execution_id
    AND CASE WHEN o.lease_epoch = a.lease_epoch
    AND o.attempt_index = a.attempt_index
    AND o.current_lease_id = a.lease_id
    AND o.current_worker_instance_id = a.worker_instance_id
    AND o.lifecycle_phase = 'active'::text
    AND o.ownership_state = 'leased'::text
    AND o.lease_expires_at_ms > a.now_ms_ THEN true ELSE false END
    ORDER BY o.partition_key,
    o.execution_id FOR SHARE OF o),
g AS (UPDATE ff_stream_meta AS t
    SET frame_count = a.frame_count,
    total_bytes = a.total_bytes,
    last_ts_ms = a.last_ts_ms,
    last_seq = a.last_seq,
    durable_count = a.durable_count,
    has_durable_frame = a.has_durable_frame,
    durable_trimmed = a.durable_trimmed,
    summary_count = a.summary_count,
    summary_trimmed = a.summary_trimmed,
    live_count = a.live_count,
    live_trimmed = a.live_trimmed,
    ema_rate_hz = a.ema_rate_hz,
    last_append_ts_ms = a.last_append_ts_ms,
    maxlen_applied_last = a.maxlen_applied_last,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND t.attempt_index = a.attempt_index
    AND CASE WHEN t.version = a.version
    AND a.n_ IN (SELECT h.n_ FROM h) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.execution_id,
    a.attempt_index,
    a.frames,
    a.trim_durable,
    a.trim_ts_ms,
    a.trim_summary,
    a.trim_best_effort),
w4 AS (DELETE
    FROM ff_stream_frame AS t USING g
    WHERE t.partition_key = g.partition_key
    AND t.execution_id = g.execution_id
    AND t.attempt_index = g.attempt_index
    AND t.mode = 'best_effort'::text
    AND t.mode_number <= g.trim_best_effort
    AND t.mode != 'durable'::text),
w3 AS (DELETE
    FROM ff_stream_frame AS t USING g
    WHERE t.partition_key = g.partition_key
    AND t.execution_id = g.execution_id
    AND t.attempt_index = g.attempt_index
    AND t.mode = 'summary'::text
    AND t.mode_number <= g.trim_summary
    AND t.mode != 'durable'::text),
w2 AS (DELETE
    FROM ff_stream_frame AS t USING g
    WHERE t.partition_key = g.partition_key
    AND t.execution_id = g.execution_id
    AND t.attempt_index = g.attempt_index
    AND t.mode = 'durable'::text
    AND t.mode_number <= g.trim_durable
    AND t.ts_ms <= g.trim_ts_ms),
w1 AS (INSERT INTO ff_stream_frame (partition_key,
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
    fields) SELECT g.partition_key,
    g.execution_id,
    g.attempt_index,
    x.ts_ms,
    x.seq,
    x.mode,
    x.number,
    x.mode_number,
    x.client_seq,
    x.expires_at_ms,
    g.now_ms_,
    x.fields
    FROM g CROSS JOIN LATERAL json_to_recordset(g.frames) AS x(ts_ms bigint,
    seq bigint,
    mode text,
    number bigint,
    mode_number bigint,
    client_seq bigint,
    expires_at_ms bigint,
    fields json))
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
