-- register_lane(lane_id, registered_by)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_lane_id,
    cardinality($3::text[]) = 1 AS one_registered_by,
    ($2::text[])[1] AS lane_id,
    ($3::text[])[1] AS registered_by),
a AS (SELECT CASE WHEN s.one_lane_id THEN s.lane_id ELSE u.lane_id END AS lane_id,
    CASE WHEN s.one_registered_by THEN s.registered_by ELSE u.registered_by END AS registered_by,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
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
    ON CONFLICT DO NOTHING RETURNING t.lane_id AS r_lane_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_lane_id) END
    FROM g;
