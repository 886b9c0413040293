-- stream_forget_frame(partition_key, execution_id, attempt_index, ts_ms, seq, now)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.attempt_index AS attempt_index,
    u.ts_ms AS ts_ms,
    u.seq AS seq,
    u.now AS now,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, attempt_index, ts_ms, seq, now, n_)),
g AS (DELETE
    FROM ff_stream_frame AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND t.attempt_index = a.attempt_index
    AND t.ts_ms = a.ts_ms
    AND t.seq = a.seq
    AND CASE WHEN t.expires_at_ms <= a.now THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.ts_ms AS r_ts_ms,
    t.seq AS r_seq)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
