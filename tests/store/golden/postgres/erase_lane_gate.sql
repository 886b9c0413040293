-- erase_lane_gate(lane_id, namespace, gate)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.lane_id AS lane_id,
    u.namespace AS namespace,
    u.gate AS gate,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS u(lane_id, namespace, gate, n_)),
g AS (DELETE
    FROM ff_lane_gate AS t USING a
    WHERE t.lane_id = a.lane_id
    AND t.namespace = a.namespace
    AND t.gate = a.gate RETURNING a.n_,
    a.now_ms_,
    t.lane_id AS r_lane_id,
    t.namespace AS r_namespace,
    t.gate AS r_gate)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
