-- first_charge(partition_key, execution_id, budget_id, dimension, by)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::bigint[]) = 1 AS one_partition_key,
    cardinality($3::uuid[]) = 1 AS one_execution_id,
    cardinality($4::uuid[]) = 1 AS one_budget_id,
    cardinality($5::text[]) = 1 AS one_dimension,
    cardinality($6::bigint[]) = 1 AS one_by,
    ($2::bigint[])[1] AS partition_key,
    ($3::uuid[])[1] AS execution_id,
    ($4::uuid[])[1] AS budget_id,
    ($5::text[])[1] AS dimension,
    ($6::bigint[])[1] AS by),
a AS (SELECT CASE WHEN s.one_partition_key THEN s.partition_key ELSE u.partition_key END AS partition_key,
    CASE WHEN s.one_execution_id THEN s.execution_id ELSE u.execution_id END AS execution_id,
    CASE WHEN s.one_budget_id THEN s.budget_id ELSE u.budget_id END AS budget_id,
    CASE WHEN s.one_dimension THEN s.dimension ELSE u.dimension END AS dimension,
    CASE WHEN s.one_by THEN s.by ELSE u.by END AS by,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::bigint[]) WITH ORDINALITY AS u(partition_key, execution_id, budget_id, dimension, by, n_)),
g AS (INSERT INTO ff_budget_usage_by_exec AS t (partition_key,
    execution_id,
    budget_id,
    dimensions_key,
    delta_total,
    updated_at_ms) SELECT a.partition_key,
    a.execution_id,
    a.budget_id,
    a.dimension,
    a.by,
    a.now_ms_
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.dimensions_key AS r_dimensions_key,
    t.budget_id AS r_budget_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_partition_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_execution_id) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_dimensions_key) END,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(g.r_budget_id) END
    FROM g;
