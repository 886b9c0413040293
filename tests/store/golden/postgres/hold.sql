-- hold(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id)

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
    SET last_mutation_at = a.now_ms_
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
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
