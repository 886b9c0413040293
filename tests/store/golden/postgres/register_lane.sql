-- register_lane(lane_id, registered_by)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.*,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(lane_id, registered_by, n_)),
g AS (INSERT INTO ff_lane_registry AS t (lane_id,
    registered_at_ms,
    registered_by,
    state,
    updated_at_ms) SELECT a.lane_id,
    a.now_ms_,
    a.registered_by,
    'active'::text,
    a.now_ms_
    FROM a
    WHERE true
    ORDER BY a.n_
    ON CONFLICT DO NOTHING RETURNING t.lane_id AS r_lane_id)
SELECT (SELECT now_ms FROM clk),
    g.r_lane_id
    FROM g;
