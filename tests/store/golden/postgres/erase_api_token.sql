-- erase_api_token(token_id, namespace)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.token_id AS token_id,
    u.namespace AS namespace,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS u(token_id, namespace, n_)),
g AS (DELETE
    FROM ff_api_token AS t USING a
    WHERE t.token_id = a.token_id
    AND CASE WHEN t.namespace = a.namespace THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.token_id AS r_token_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
