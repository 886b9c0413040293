-- set_first_edge_policy(partition_key, flow_id, version, downstream_eid, policy, k_target)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.flow_id AS flow_id,
    u.version AS version,
    u.downstream_eid AS downstream_eid,
    u.policy::json AS policy,
    u.k_target AS k_target,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::uuid[], $6::text[], $7::bigint[]) WITH ORDINALITY AS u(partition_key, flow_id, version, downstream_eid, policy, k_target, n_)),
g AS (UPDATE ff_flow_core AS t
    SET version = t.version + 1
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.flow_id = a.flow_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.partition_key,
    a.flow_id,
    a.downstream_eid,
    a.policy,
    a.k_target),
w1 AS (INSERT INTO ff_edge_group (partition_key,
    flow_id,
    downstream_eid,
    policy,
    k_target) SELECT g.partition_key,
    g.flow_id,
    g.downstream_eid,
    g.policy,
    g.k_target
    FROM g
    ON CONFLICT DO NOTHING RETURNING 1)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    CASE WHEN (SELECT count(*) FROM w1) = (SELECT count(*) FROM g) THEN 0 ELSE ('ff_refused_at_1' || (SELECT left(count(*)::text, 0) FROM g))::int END
    FROM g;
