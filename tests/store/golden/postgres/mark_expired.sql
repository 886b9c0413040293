-- mark_expired(partition_key, execution_id, version)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, version, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now_ms_,
    last_transition_at = a.now_ms_,
    lifecycle_phase = 'active'::text,
    ownership_state = 'lease_expired_reclaimable'::text,
    eligibility_state = 'not_applicable'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = 'lease expired,
    awaiting reclaim'::text,
    terminal_outcome = 'none'::text,
    public_state = 'active'::text,
    attempt_state = 'attempt_interrupted'::text,
    lease_expired_at = a.now_ms_,
    expired_epoch = t.lease_epoch,
    interrupt_cause = 'lease_expired'::text,
    attempt_timeout_at_ms = NULL::bigint,
    attempt_timeout_remaining_ms = t.attempt_timeout_ms
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND t.ownership_state = 'leased'::text
    AND t.lease_expires_at_ms <= a.now_ms_ THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.execution_id AS r_execution_id,
    t.partition_key AS r_partition_key,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.current_lease_id AS r_current_lease_id,
    t.lease_epoch AS r_lease_epoch,
    t.current_worker_instance_id AS r_current_worker_instance_id,
    t.lease_expires_at_ms AS r_lease_expires_at_ms),
w1 AS (INSERT INTO ff_lease_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    lease_id,
    lease_epoch,
    worker_instance_id) SELECT 'expired'::text,
    g.now_ms_,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.r_current_lease_id,
    g.r_lease_epoch,
    g.r_current_worker_instance_id
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lease_expires_at_ms
    FROM g;
