-- stream_append(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, frames)

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
    u.frames::json AS frames,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::uuid[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[]) WITH ORDINALITY AS u(partition_key, execution_id, attempt_index, version, lease_epoch, lease_id, worker_instance_id, frame_count, total_bytes, last_ts_ms, last_seq, durable_count, frames, n_)),
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
    has_durable_frame = 1,
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
    a.frames),
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
