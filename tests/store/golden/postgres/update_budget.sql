-- update_budget(budget_id, version, policy_json, next_reset_at_ms, namespace, details)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.budget_id AS budget_id,
    u.version AS version,
    u.policy_json::json AS policy_json,
    u.next_reset_at_ms AS next_reset_at_ms,
    u.namespace AS namespace,
    u.details::json AS details,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[]) WITH ORDINALITY AS u(budget_id, version, policy_json, next_reset_at_ms, namespace, details, n_)),
g AS (UPDATE ff_budget_policy AS t
    SET version = t.version + 1,
    policy_json = a.policy_json,
    next_reset_at_ms = a.next_reset_at_ms,
    changed_at_ms = a.now_ms_,
    updated_at_ms = a.now_ms_
    FROM a
    WHERE t.budget_id = a.budget_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    a.budget_id,
    a.namespace,
    a.details),
w1 AS (INSERT INTO ff_operator_event (event_type,
    occurred_at_ms,
    execution_id,
    partition_key,
    namespace,
    details) SELECT 'budget_updated'::text,
    g.now_ms_,
    g.budget_id,
    0,
    g.namespace,
    g.details
    FROM g)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
