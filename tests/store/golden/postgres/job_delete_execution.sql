-- job_delete_execution(partition_key, execution_id, version, wire_id, now, job_id, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.wire_id AS wire_id,
    u.now AS now,
    u.job_id AS job_id,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::bigint[], $7::uuid[], $8::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, wire_id, now, job_id, details, n_)),
g AS (DELETE
    FROM ff_exec_core AS t USING a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND t.lifecycle_phase IN ('terminal', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM ff_edge AS o WHERE o.partition_key = a.partition_key AND o.upstream_eid = a.execution_id AND o.dep_state = 'unsatisfied'::text) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.wire_id,
    a.now,
    a.job_id,
    a.details,
    t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id,
    t.namespace AS r_namespace,
    t.idempotency_key AS r_idempotency_key,
    t.execution_id AS r_execution_id),
w3 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    namespace,
    details) SELECT 'deleted'::text,
    g.now,
    g.job_id,
    g.r_namespace,
    g.details
    FROM g),
w2 AS (DELETE
    FROM ff_idempotency AS t USING g
    WHERE t.namespace = g.r_namespace
    AND t.idempotency_key = g.r_idempotency_key
    AND t.execution_id = g.r_execution_id
    AND (t.expires_at_ms IS NULL OR t.expires_at_ms <= g.now_ms_)),
w1 AS (DELETE
    FROM ff_cancel_backlog_member AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.flow_id = g.r_flow_id
    AND t.execution_id = g.wire_id),
c0 AS (DELETE
    FROM ff_attempt AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c1 AS (DELETE
    FROM ff_claim_grant AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c2 AS (DELETE
    FROM ff_suspension_current AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c3 AS (DELETE
    FROM ff_waitpoint_pending AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c4 AS (DELETE
    FROM ff_signal AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c5 AS (DELETE
    FROM ff_signal_dedup AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c6 AS (DELETE
    FROM ff_suspend_dedup AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c7 AS (DELETE
    FROM ff_budget_usage_by_exec AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c8 AS (DELETE
    FROM ff_stream_meta AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c9 AS (DELETE
    FROM ff_stream_frame AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c10 AS (DELETE
    FROM ff_stream_summary AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c11 AS (DELETE
    FROM ff_step AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
c12 AS (DELETE
    FROM ff_lease_event AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
o12 AS (INSERT INTO ff_outbox_trim AS x (channel,
    event_id) SELECT 'ff_lease_event',
    max(t.event_id)
    FROM ff_lease_event AS t JOIN g ON t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    HAVING max(t.event_id) IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = greatest(x.event_id,
    EXCLUDED.event_id)),
c13 AS (DELETE
    FROM ff_completion_event AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
o13 AS (INSERT INTO ff_outbox_trim AS x (channel,
    event_id) SELECT 'ff_completion_event',
    max(t.event_id)
    FROM ff_completion_event AS t JOIN g ON t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    HAVING max(t.event_id) IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = greatest(x.event_id,
    EXCLUDED.event_id)),
c14 AS (DELETE
    FROM ff_operator_event AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
o14 AS (INSERT INTO ff_outbox_trim AS x (channel,
    event_id) SELECT 'ff_operator_event',
    max(t.event_id)
    FROM ff_operator_event AS t JOIN g ON t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    HAVING max(t.event_id) IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = greatest(x.event_id,
    EXCLUDED.event_id)),
c15 AS (DELETE
    FROM ff_signal_event AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
o15 AS (INSERT INTO ff_outbox_trim AS x (channel,
    event_id) SELECT 'ff_signal_event',
    max(t.event_id)
    FROM ff_signal_event AS t JOIN g ON t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    HAVING max(t.event_id) IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = greatest(x.event_id,
    EXCLUDED.event_id))
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
