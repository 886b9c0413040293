-- apply_edge(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now, blocking_detail)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.downstream_eid AS downstream_eid,
    u.version AS version,
    u.running_count AS running_count,
    u.group_state AS group_state,
    u.edge_id AS edge_id,
    u.now AS now,
    u.blocking_detail AS blocking_detail,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, version, running_count, group_state, edge_id, now, blocking_detail, n_)),
g AS (UPDATE ff_edge_group AS t
    SET running_count = a.running_count,
    group_state = a.group_state,
    version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND t.downstream_eid = a.downstream_eid
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.flow_id,
    a.edge_id,
    a.now,
    a.downstream_eid,
    a.blocking_detail),
w2 AS (UPDATE ff_exec_core AS t
    SET lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'blocked_by_dependencies'::text,
    blocking_reason = 'waiting_for_children'::text,
    blocking_detail = g.blocking_detail,
    terminal_outcome = 'none'::text,
    public_state = 'waiting_children'::text,
    version = t.version + 1,
    last_transition_at = g.now,
    last_mutation_at = g.now
    FROM g
    WHERE t.partition_key = g.partition_key
    AND t.execution_id = g.downstream_eid
    AND CASE WHEN t.lifecycle_phase IN ('runnable', 'submitted')
    AND t.terminal_outcome = 'none'::text THEN true ELSE false END),
w1 AS (UPDATE ff_edge AS t
    SET edge_state = 'applied'::text,
    applied_at_ms = g.now,
    dep_state = 'unsatisfied'::text
    FROM g
    WHERE t.partition_key = g.partition_key
    AND t.flow_id = g.flow_id
    AND t.edge_id = g.edge_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
