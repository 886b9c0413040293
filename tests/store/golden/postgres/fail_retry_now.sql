-- fail_retry_now(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, reason, next_policy, category)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.lease_epoch AS lease_epoch,
    u.attempt_index AS attempt_index,
    u.lease_id AS lease_id,
    u.worker_instance_id AS worker_instance_id,
    u.reason AS reason,
    u.next_policy::json AS next_policy,
    u.category AS category,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::text[], $10::text[]) WITH ORDINALITY AS u(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, reason, next_policy, category, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now_ms_,
    last_transition_at = a.now_ms_,
    current_lease_id = NULL::uuid,
    current_worker_id = NULL::text,
    current_worker_instance_id = NULL::text,
    lease_expires_at_ms = NULL::bigint,
    lease_last_renewed_at = NULL::bigint,
    lease_renewal_deadline = NULL::bigint,
    lease_expired_at = NULL::bigint,
    attempt_timeout_at_ms = NULL::bigint,
    failure_reason = a.reason,
    last_failure_message = a.reason,
    attempt_state = 'pending_retry_attempt'::text,
    retry_count = t.retry_count + 1,
    current_attempt_id = NULL::uuid,
    pending_retry_reason = a.reason,
    pending_previous_attempt_index = a.attempt_index,
    pending_attempt_policy = a.next_policy,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'eligible_now'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text,
    delay_until_ms = a.now_ms_
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.lease_epoch = a.lease_epoch
    AND t.attempt_index = a.attempt_index
    AND t.current_lease_id = a.lease_id
    AND t.current_worker_instance_id = a.worker_instance_id
    AND t.lifecycle_phase = 'active'::text
    AND t.ownership_state = 'leased'::text
    AND t.lease_expires_at_ms > a.now_ms_
    AND (t.attempt_timeout_at_ms IS NULL OR t.attempt_timeout_at_ms > a.now_ms_) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.reason,
    a.category,
    a.lease_id,
    a.worker_instance_id,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.lease_epoch AS r_lease_epoch,
    t.delay_until_ms AS r_delay_until_ms,
    t.total_attempt_count AS r_total_attempt_count,
    t.lane_id AS r_lane_id),
w2 AS (INSERT INTO ff_lease_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    lease_id,
    lease_epoch,
    worker_instance_id,
    reason) SELECT 'revoked'::text,
    g.now_ms_,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.lease_id,
    g.r_lease_epoch,
    g.worker_instance_id,
    'retry'::text
    FROM g),
w1 AS (UPDATE ff_attempt AS t
    SET attempt_state = 'ended_failure'::text,
    outcome = 'retry'::text,
    terminal_at_ms = g.now_ms_,
    lease_expires_at_ms = NULL::bigint,
    failure_reason = g.reason,
    failure_category = g.category
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_delay_until_ms,
    g.r_total_attempt_count,
    g.r_lane_id
    FROM g;
