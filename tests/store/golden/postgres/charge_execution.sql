-- charge_execution(partition_key, execution_id, dimension, budget_id, by)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.partition_key AS partition_key,
    u.execution_id AS execution_id,
    u.dimension AS dimension,
    u.budget_id AS budget_id,
    u.by AS by,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::text[], $5::uuid[], $6::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, dimension, budget_id, by, n_)),
g AS (UPDATE ff_budget_usage_by_exec AS t
    SET delta_total = t.delta_total + a.by,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND t.dimensions_key = a.dimension
    AND t.budget_id = a.budget_id RETURNING a.n_,
    a.now_ms_)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
