-- skip_leased(partition_key, execution_id, version)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, version, n_)),
l AS MATERIALIZED (SELECT a.n_,
    a.now_ms_,
    a.partition_key,
    a.execution_id,
    a.version,
    t.current_lease_id AS w_current_lease_id,
    t.current_worker_instance_id AS w_current_worker_instance_id,
    t.partition_key AS w_partition_key,
    t.execution_id AS w_execution_id
    FROM a,
    ff_exec_core AS t
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END
    ORDER BY t.partition_key,
    t.execution_id FOR UPDATE OF t),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = l.now_ms_,
    last_transition_at = l.now_ms_,
    current_lease_id = NULL::uuid,
    current_worker_id = NULL::text,
    current_worker_instance_id = NULL::text,
    lease_expires_at_ms = NULL::bigint,
    lease_last_renewed_at = NULL::bigint,
    lease_renewal_deadline = NULL::bigint,
    lease_expired_at = NULL::bigint,
    attempt_timeout_at_ms = NULL::bigint,
    reserved_for = NULL::text,
    reserved_until_ms = NULL::bigint,
    retain_until_ms = (l.now_ms_ + t.retention_ttl_ms),
    lifecycle_phase = 'terminal'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'not_applicable'::text,
    blocking_reason = 'none'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'skipped'::text,
    public_state = 'skipped'::text,
    delay_until_ms = NULL::bigint,
    terminal_at_ms = l.now_ms_,
    closing_epoch = t.lease_epoch,
    closing_attempt_index = t.attempt_index,
    attempt_state = 'attempt_terminal'::text
    FROM l
    WHERE t.partition_key = l.w_partition_key
    AND t.execution_id = l.w_execution_id RETURNING l.n_,
    l.now_ms_,
    l.w_current_lease_id,
    l.w_current_worker_instance_id,
    l.w_partition_key,
    l.w_execution_id,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.attempt_index AS r_attempt_index,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.lease_epoch AS r_lease_epoch,
    t.flow_id AS r_flow_id),
w4 AS (INSERT INTO ff_completion_event (outcome,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    flow_id,
    committed_at_ms) SELECT 'skipped'::text,
    g.now_ms_,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.r_flow_id,
    g.now_ms_
    FROM g),
w3 AS (INSERT INTO ff_lease_event (event_type,
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
    g.w_current_lease_id,
    g.r_lease_epoch,
    g.w_current_worker_instance_id,
    'dependency_impossible'::text
    FROM g),
w2 AS (DELETE
    FROM ff_claim_grant AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id),
w1 AS (UPDATE ff_attempt AS t
    SET attempt_state = 'ended_cancelled'::text,
    outcome = 'skipped'::text,
    terminal_at_ms = g.now_ms_,
    lease_expires_at_ms = NULL::bigint,
    failure_reason = 'dependency_impossible'::text
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
