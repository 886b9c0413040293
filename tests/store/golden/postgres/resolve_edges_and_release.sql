-- resolve_edges_and_release(partition_key, flow_id, downstream_eid, version, success_count, fail_count, skip_count, running_count, group_state, satisfied_at_ms, cancel_siblings_pending_flag, cancel_siblings_pending_members, cancel_siblings_reason, satisfied, now, impossible, told, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.downstream_eid AS downstream_eid,
    u.version AS version,
    u.success_count AS success_count,
    u.fail_count AS fail_count,
    u.skip_count AS skip_count,
    u.running_count AS running_count,
    u.group_state AS group_state,
    u.satisfied_at_ms AS satisfied_at_ms,
    u.cancel_siblings_pending_flag AS cancel_siblings_pending_flag,
    u.cancel_siblings_pending_members::json AS cancel_siblings_pending_members,
    u.cancel_siblings_reason AS cancel_siblings_reason,
    u.satisfied::uuid[] AS satisfied,
    u.now AS now,
    u.impossible::uuid[] AS impossible,
    u.told::uuid[] AS told,
    u.eligibility_state AS eligibility_state,
    u.blocking_reason AS blocking_reason,
    u.public_state AS public_state,
    u.lane_id AS lane_id,
    u.delayed_until_ms AS delayed_until_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, version, success_count, fail_count, skip_count, running_count, group_state, satisfied_at_ms, cancel_siblings_pending_flag, cancel_siblings_pending_members, cancel_siblings_reason, satisfied, now, impossible, told, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms, n_)),
g AS (UPDATE ff_edge_group AS t
    SET success_count = a.success_count,
    fail_count = a.fail_count,
    skip_count = a.skip_count,
    running_count = a.running_count,
    group_state = a.group_state,
    satisfied_at_ms = a.satisfied_at_ms,
    cancel_siblings_pending_flag = a.cancel_siblings_pending_flag,
    cancel_siblings_pending_members = a.cancel_siblings_pending_members,
    cancel_siblings_reason = a.cancel_siblings_reason,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND t.downstream_eid = a.downstream_eid
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.flow_id,
    a.satisfied,
    a.now,
    a.impossible,
    a.told,
    a.eligibility_state,
    a.blocking_reason,
    a.public_state,
    t.partition_key AS r_partition_key,
    t.downstream_eid AS r_downstream_eid),
w4 AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = g.now_ms_,
    last_transition_at = g.now_ms_,
    eligibility_state = g.eligibility_state,
    blocking_reason = g.blocking_reason,
    public_state = g.public_state,
    ownership_state = 'unowned'::text,
    blocking_detail = ''::text
    FROM g
    WHERE t.partition_key = g.r_partition_key
    AND t.execution_id = g.r_downstream_eid
    AND CASE WHEN t.lifecycle_phase = 'runnable'::text
    AND t.eligibility_state = 'blocked_by_dependencies'::text THEN true ELSE false END),
w3 AS (UPDATE ff_completion_event AS t
    SET dispatched_at_ms = g.now_ms_
    FROM g
    WHERE t.execution_id = ANY(g.told)
    AND t.dispatched_at_ms IS NULL),
w2 AS (UPDATE ff_edge AS t
    SET dep_state = 'impossible'::text,
    last_resolved_at_ms = g.now
    FROM g
    WHERE t.partition_key = g.partition_key
    AND t.flow_id = g.flow_id
    AND t.edge_id = ANY(g.impossible)),
w1 AS (UPDATE ff_edge AS t
    SET dep_state = 'satisfied'::text,
    last_resolved_at_ms = g.now
    FROM g
    WHERE t.partition_key = g.partition_key
    AND t.flow_id = g.flow_id
    AND t.edge_id = ANY(g.satisfied))
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
