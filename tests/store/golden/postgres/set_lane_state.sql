-- set_lane_state(lane_id, state)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.lane_id AS lane_id,
    u.state AS state,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(lane_id, state, n_)),
g AS (UPDATE ff_lane_registry AS t
    SET state = a.state,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.lane_id = a.lane_id RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
