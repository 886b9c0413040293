-- delay(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, blocking_detail, delay_until_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.lease_epoch AS lease_epoch,
    u.attempt_index AS attempt_index,
    u.lease_id AS lease_id,
    u.worker_instance_id AS worker_instance_id,
    u.blocking_detail AS blocking_detail,
    u.delay_until_ms AS delay_until_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, blocking_detail, delay_until_ms, n_)),
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
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'not_eligible_until_time'::text,
    blocking_reason = 'waiting_for_delay'::text,
    blocking_detail = a.blocking_detail,
    terminal_outcome = 'none'::text,
    public_state = 'delayed'::text,
    attempt_state = 'attempt_interrupted'::text,
    interrupt_cause = 'delayed'::text,
    delay_until_ms = a.delay_until_ms,
    attempt_timeout_remaining_ms = CASE WHEN t.attempt_timeout_at_ms IS NULL THEN NULL ELSE greatest(t.attempt_timeout_at_ms - a.now_ms_, 1) END
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
    a.lease_id,
    a.worker_instance_id,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.attempt_timeout_remaining_ms AS r_attempt_timeout_remaining_ms,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.lease_epoch AS r_lease_epoch,
    t.delay_until_ms AS r_delay_until_ms),
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
    'delayed'::text
    FROM g),
w1 AS (UPDATE ff_attempt AS t
    SET attempt_state = 'suspended'::text,
    suspended_at_ms = g.now_ms_,
    suspension_id = 'worker_delay'::text,
    lease_expires_at_ms = NULL::bigint,
    attempt_timeout_remaining_ms = g.r_attempt_timeout_remaining_ms
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_delay_until_ms
    FROM g;
