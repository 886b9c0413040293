-- touch_api_token(token_id, before)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.token_id AS token_id,
    u.before AS before,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS u(token_id, before, n_)),
g AS (UPDATE ff_api_token AS t
    SET last_used_at_ms = a.now_ms_
    FROM a
    WHERE t.token_id = a.token_id
    AND CASE WHEN (t.last_used_at_ms IS NULL OR t.last_used_at_ms <= a.before) THEN true ELSE false END RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
