-- move_execution(partition_key, execution_id, version, lane_id, budget_ids, quota_policy_id, gate, now, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.version AS version,
    u.lane_id AS lane_id,
    u.budget_ids::text[] AS budget_ids,
    u.quota_policy_id AS quota_policy_id,
    u.gate AS gate,
    u.now AS now,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::bigint[], $10::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, lane_id, budget_ids, quota_policy_id, gate, now, details, n_)),
g AS (UPDATE ff_exec_core AS t
    SET reserved_for = NULL::text,
    reserved_until_ms = NULL::bigint,
    lane_id = a.lane_id,
    budget_ids = a.budget_ids,
    quota_policy_id = a.quota_policy_id,
    gate = a.gate,
    version = t.version + 1,
    last_mutation_at = a.now
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version
    AND NOT EXISTS (SELECT 1 FROM ff_lane_registry AS o WHERE o.lane_id = a.lane_id AND o.state IN ('draining', 'disabled')) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.now,
    a.details,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.namespace AS r_namespace,
    t.instance_tag AS r_instance_tag),
w2 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    instance_tag,
    details) SELECT 'moved'::text,
    g.now,
    g.r_execution_id,
    g.r_partition_key,
    g.r_namespace,
    g.r_instance_tag,
    g.details
    FROM g),
w1 AS (DELETE
    FROM ff_claim_grant AS t USING g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_execution_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
