-- suspension_timeout_resume(partition_key, execution_id, version, now, signal_id, waitpoint_id, suspension_id, attempt_index, lane_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.now AS now,
    u.signal_id AS signal_id,
    u.waitpoint_id AS waitpoint_id,
    u.suspension_id AS suspension_id,
    u.attempt_index AS attempt_index,
    u.lane_id AS lane_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::uuid[], $8::uuid[], $9::bigint[], $10::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, now, signal_id, waitpoint_id, suspension_id, attempt_index, lane_id, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now,
    last_transition_at = a.now,
    current_suspension_id = NULL::uuid,
    current_waitpoint_id = NULL::uuid,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'eligible_now'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text,
    delay_until_ms = NULL::bigint
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND t.lifecycle_phase = 'suspended'::text THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    a.partition_key,
    a.execution_id,
    a.signal_id,
    a.waitpoint_id,
    a.suspension_id,
    a.attempt_index,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id),
w3 AS (INSERT INTO ff_signal (partition_key,
    execution_id,
    signal_id,
    waitpoint_id,
    suspension_id,
    attempt_index,
    signal_name,
    signal_category,
    source_type,
    source_identity,
    created_at_ms,
    accepted_at_ms,
    observed_effect,
    matched) SELECT g.partition_key,
    g.execution_id,
    g.signal_id,
    g.waitpoint_id,
    g.suspension_id,
    g.attempt_index,
    'timeout'::text,
    'system'::text,
    'engine'::text,
    'suspension_timeout'::text,
    g.now,
    g.now,
    'timed_out_auto_resume'::text,
    1
    FROM g
    ON CONFLICT DO NOTHING RETURNING 1),
w2 AS (UPDATE ff_waitpoint_pending AS t
    SET state = 'closed'::text,
    closed_at_ms = g.now,
    close_reason = 'timed_out_auto_resume'::text,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.state IN ('active')),
w1 AS (UPDATE ff_suspension_current AS t
    SET closed_at_ms = g.now,
    close_reason = 'timed_out_auto_resume'::text,
    version = t.version + 1
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND CASE WHEN t.closed_at_ms IS NULL THEN true ELSE false END)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    CASE WHEN (SELECT count(*) FROM w3) = (SELECT count(*) FROM g) THEN 0 ELSE ('ff_refused_at_3' || (SELECT left(count(*)::text, 0) FROM g))::int END
    FROM g;
