-- erase_budget_policy(budget_id, namespace)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.namespace AS namespace,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS u(budget_id, namespace, n_)),
g AS (DELETE
    FROM ff_budget_policy AS t USING a
    WHERE t.budget_id = a.budget_id
    AND CASE WHEN t.namespace = a.namespace THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.budget_id AS r_budget_id),
c0 AS (DELETE
    FROM ff_budget_usage AS t USING g
    WHERE t.budget_id = g.r_budget_id),
c1 AS (DELETE
    FROM ff_budget_usage_dedup AS t USING g
    WHERE t.budget_id = g.r_budget_id),
c2 AS (DELETE
    FROM ff_operator_event AS t USING g
    WHERE t.execution_id = g.r_budget_id),
o2 AS (INSERT INTO ff_outbox_trim AS x (channel,
    event_id) SELECT 'ff_operator_event',
    max(t.event_id)
    FROM ff_operator_event AS t JOIN g ON t.execution_id = g.r_budget_id
    HAVING max(t.event_id) IS NOT NULL
    ON CONFLICT (channel) DO UPDATE
    SET event_id = greatest(x.event_id,
    EXCLUDED.event_id))
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
