-- apply_first_edge(partition_key, flow_id, downstream_eid, edge_id, now, blocking_detail)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.downstream_eid AS downstream_eid,
    u.edge_id AS edge_id,
    u.now AS now,
    u.blocking_detail AS blocking_detail,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[], $7::text[]) WITH ORDINALITY AS u(partition_key, flow_id, downstream_eid, edge_id, now, blocking_detail, n_)),
i AS (INSERT INTO ff_edge_group AS t (partition_key,
    flow_id,
    downstream_eid,
    policy,
    running_count) SELECT a.partition_key,
    a.flow_id,
    a.downstream_eid,
    '{"kind":"all_of"}'::json,
    1
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.flow_id AS r_flow_id,
    t.downstream_eid AS r_downstream_eid),
g AS MATERIALIZED (SELECT a.*,
    i.*
    FROM a JOIN i ON i.r_partition_key = a.partition_key
    AND i.r_flow_id = a.flow_id
    AND i.r_downstream_eid = a.downstream_eid),
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
