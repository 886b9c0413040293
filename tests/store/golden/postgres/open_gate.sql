-- open_gate(lane_id, namespace, gate, quota_policy_id)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_lane_id,
    cardinality($3::text[]) = 1 AS one_namespace,
    cardinality($4::text[]) = 1 AS one_gate,
    cardinality($5::uuid[]) = 1 AS one_quota_policy_id,
    ($2::text[])[1] AS lane_id,
    ($3::text[])[1] AS namespace,
    ($4::text[])[1] AS gate,
    ($5::uuid[])[1] AS quota_policy_id),
a AS (SELECT CASE WHEN s.one_lane_id THEN s.lane_id ELSE u.lane_id END AS lane_id,
    CASE WHEN s.one_namespace THEN s.namespace ELSE u.namespace END AS namespace,
    CASE WHEN s.one_gate THEN s.gate ELSE u.gate END AS gate,
    CASE WHEN s.one_quota_policy_id THEN s.quota_policy_id ELSE u.quota_policy_id END AS quota_policy_id,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::text[], $3::text[], $4::text[], $5::uuid[]) WITH ORDINALITY AS u(lane_id, namespace, gate, quota_policy_id, n_)),
g AS (INSERT INTO ff_lane_gate AS t (lane_id,
    namespace,
    gate,
    quota_policy_id) SELECT a.lane_id,
    a.namespace,
    a.gate,
    a.quota_policy_id
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.lane_id AS r_lane_id,
    t.namespace AS r_namespace,
    t.gate AS r_gate)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_lane_id) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_namespace) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_gate) END
    FROM g;
