-- remember_usage(budget_id, key, outcome, now, expires_at_ms)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::uuid[]) = 1 AS one_budget_id,
    cardinality($3::text[]) = 1 AS one_key,
    cardinality($4::text[]) = 1 AS one_outcome,
    cardinality($5::bigint[]) = 1 AS one_now,
    cardinality($6::bigint[]) = 1 AS one_expires_at_ms,
    ($2::uuid[])[1] AS budget_id,
    ($3::text[])[1] AS key,
    ($4::text[])[1]::json AS outcome,
    ($5::bigint[])[1] AS now,
    ($6::bigint[])[1] AS expires_at_ms),
a AS (SELECT CASE WHEN s.one_budget_id THEN s.budget_id ELSE u.budget_id END AS budget_id,
    CASE WHEN s.one_key THEN s.key ELSE u.key END AS key,
    CASE WHEN s.one_outcome THEN s.outcome ELSE u.outcome::json END AS outcome,
    CASE WHEN s.one_now THEN s.now ELSE u.now END AS now,
    CASE WHEN s.one_expires_at_ms THEN s.expires_at_ms ELSE u.expires_at_ms END AS expires_at_ms,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS u(budget_id, key, outcome, now, expires_at_ms, n_)),
g AS (INSERT INTO ff_budget_usage_dedup AS t (budget_id,
    dedup_key,
    outcome_json,
    applied_at_ms,
    expires_at_ms) SELECT a.budget_id,
    a.key,
    a.outcome,
    a.now,
    a.expires_at_ms
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.budget_id AS r_budget_id,
    t.dedup_key AS r_dedup_key)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(g.r_budget_id) END,
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(g.r_dedup_key) END
    FROM g;
