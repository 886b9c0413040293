-- erase_limit_scope(scope_type, scope_id, kind, limit_id, namespace)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.scope_type AS scope_type,
    u.scope_id AS scope_id,
    u.kind AS kind,
    u.limit_id AS limit_id,
    u.namespace AS namespace,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[]) WITH ORDINALITY AS u(scope_type, scope_id, kind, limit_id, namespace, n_)),
g AS (DELETE
    FROM ff_limit_scope AS t USING a
    WHERE t.scope_type = a.scope_type
    AND t.scope_id = a.scope_id
    AND t.kind = a.kind
    AND t.limit_id = a.limit_id
    AND CASE WHEN t.namespace = a.namespace THEN true ELSE false END RETURNING a.n_,
    a.now_ms_,
    t.scope_type AS r_scope_type,
    t.scope_id AS r_scope_id,
    t.kind AS r_kind,
    t.limit_id AS r_limit_id)
SELECT (SELECT now_ms FROM clk),
    g.n_
    FROM g;
