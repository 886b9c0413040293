-- record_step(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, position, name, kind, value)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::uuid[]) = 1 AS one_execution_id,
    cardinality($4::bigint[]) = 1 AS one_lease_epoch,
    cardinality($5::bigint[]) = 1 AS one_attempt_index,
    cardinality($6::uuid[]) = 1 AS one_lease_id,
    cardinality($7::text[]) = 1 AS one_worker_instance_id,
    cardinality($8::bigint[]) = 1 AS one_position,
    cardinality($9::text[]) = 1 AS one_name,
    cardinality($10::text[]) = 1 AS one_kind,
    cardinality($11::bytea[]) = 1 AS one_value,
    ($2::bigint[])[1] AS partition_key,
    ($3::uuid[])[1] AS execution_id,
    ($4::bigint[])[1] AS lease_epoch,
    ($5::bigint[])[1] AS attempt_index,
    ($6::uuid[])[1] AS lease_id,
    ($7::text[])[1] AS worker_instance_id,
    ($8::bigint[])[1] AS position,
    ($9::text[])[1] AS name,
    ($10::text[])[1] AS kind,
    ($11::bytea[])[1] AS value),
a AS MATERIALIZED (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_execution_id THEN s.execution_id ELSE u.execution_id END AS execution_id,
    CASE WHEN s.one_lease_epoch THEN s.lease_epoch ELSE u.lease_epoch END AS lease_epoch,
    CASE WHEN s.one_attempt_index THEN s.attempt_index ELSE u.attempt_index END AS attempt_index,
    CASE WHEN s.one_lease_id THEN s.lease_id ELSE u.lease_id END AS lease_id,
    CASE WHEN s.one_worker_instance_id THEN s.worker_instance_id ELSE u.worker_instance_id END AS worker_instance_id,
    CASE WHEN s.one_position THEN s.position ELSE u.position END AS position,
    CASE WHEN s.one_name THEN s.name ELSE u.name END AS name,
    CASE WHEN s.one_kind THEN s.kind ELSE u.kind END AS kind,
    CASE WHEN s.one_value THEN s.value ELSE u.value END AS value,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::bigint[], $9::text[], $10::text[], $11::bytea[]) WITH ORDINALITY AS u(partition_key, execution_id, lease_epoch, attempt_index, lease_id, worker_instance_id, position, name, kind, value, n_)),
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
g AS (INSERT INTO ff_step AS t (partition_key,
    execution_id,
    position,
    name,
    kind,
    attempt_index,
    recorded_at_ms,
    value) SELECT a.partition_key,
    a.execution_id,
    a.position,
    a.name,
    a.kind,
    a.attempt_index,
    a.now_ms_,
    a.value
    FROM a
    WHERE a.n_ IN (SELECT h.n_ FROM h)
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.position AS r_position)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_execution_id) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_position) END
    FROM g;
