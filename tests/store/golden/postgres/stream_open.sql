-- stream_open(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.lease_epoch AS lease_epoch,
    u.attempt_index AS attempt_index,
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
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::double precision[], $20::bigint[], $21::bigint[], $22::text[]) WITH ORDINALITY AS u(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, has_durable_frame, durable_trimmed, summary_count, summary_trimmed, live_count, live_trimmed, ema_rate_hz, last_append_ts_ms, maxlen_applied_last, frames, n_)),
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
i AS (INSERT INTO ff_stream_meta AS t (partition_key,
    execution_id,
    attempt_index,
    created_at_ms,
    frame_count,
    total_bytes,
    last_ts_ms,
    last_seq,
    durable_count,
    has_durable_frame,
    durable_trimmed,
    summary_count,
    summary_trimmed,
    live_count,
    live_trimmed,
    ema_rate_hz,
    last_append_ts_ms,
    maxlen_applied_last,
    version) SELECT a.partition_key,
    a.execution_id,
    a.attempt_index,
    a.now_ms_,
    a.frame_count,
    a.total_bytes,
    a.last_ts_ms,
    a.last_seq,
    a.durable_count,
    a.has_durable_frame,
    a.durable_trimmed,
    a.summary_count,
    a.summary_trimmed,
    a.live_count,
    a.live_trimmed,
    a.ema_rate_hz,
    a.last_append_ts_ms,
    a.maxlen_applied_last,
    1
    FROM a
    WHERE a.n_ IN (SELECT h.n_ FROM h)
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index),
g AS MATERIALIZED (SELECT a.*,
    i.*
    FROM a JOIN i ON i.r_partition_key = a.partition_key
    AND i.r_execution_id = a.execution_id
    AND i.r_attempt_index = a.attempt_index),
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
