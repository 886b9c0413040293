-- renew(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.lease_epoch AS lease_epoch,
    u.attempt_index AS attempt_index,
    u.lease_id AS lease_id,
    u.worker_instance_id AS worker_instance_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[]) WITH ORDINALITY AS u(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, n_)),
g AS (UPDATE ff_exec_core AS t
    SET lease_expires_at_ms = (a.now_ms_ + (t.lease_expires_at_ms - t.lease_last_renewed_at)),
    lease_last_renewed_at = a.now_ms_,
    lease_renewal_deadline = (a.now_ms_ + (t.lease_renewal_deadline - t.lease_last_renewed_at))
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
    t.lease_expires_at_ms AS r_lease_expires_at_ms,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag,
    t.lease_epoch AS r_lease_epoch),
w2 AS (INSERT INTO ff_lease_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    lease_id,
    lease_epoch,
    worker_instance_id,
    reason) SELECT 'renewed'::text,
    g.now_ms_,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.lease_id,
    g.r_lease_epoch,
    g.worker_instance_id,
    NULL::text
    FROM g),
w1 AS (UPDATE ff_attempt AS t
    SET lease_expires_at_ms = g.r_lease_expires_at_ms
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id
    AND t.attempt_index = g.r_attempt_index)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_lease_expires_at_ms,
    g.r_lease_epoch,
    g.r_lease_expires_at_ms
    FROM g;
