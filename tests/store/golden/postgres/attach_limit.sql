-- attach_limit(scope_type, scope_id, kind, limit_id, namespace)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
s AS MATERIALIZED (SELECT cardinality($2::text[]) = 1 AS one_scope_type,
    cardinality($3::text[]) = 1 AS one_scope_id,
    cardinality($4::text[]) = 1 AS one_kind,
    cardinality($5::uuid[]) = 1 AS one_limit_id,
    cardinality($6::text[]) = 1 AS one_namespace,
    ($2::text[])[1] AS scope_type,
    ($3::text[])[1] AS scope_id,
    ($4::text[])[1] AS kind,
    ($5::uuid[])[1] AS limit_id,
    ($6::text[])[1] AS namespace),
a AS (SELECT CASE WHEN s.one_scope_type THEN s.scope_type ELSE u.scope_type END AS scope_type,
    CASE WHEN s.one_scope_id THEN s.scope_id ELSE u.scope_id END AS scope_id,
    CASE WHEN s.one_kind THEN s.kind ELSE u.kind END AS kind,
    CASE WHEN s.one_limit_id THEN s.limit_id ELSE u.limit_id END AS limit_id,
    CASE WHEN s.one_namespace THEN s.namespace ELSE u.namespace END AS namespace,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    s,
    unnest($2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[]) WITH ORDINALITY AS u(scope_type, scope_id, kind, limit_id, namespace, n_)),
g AS (INSERT INTO ff_limit_scope AS t (scope_type,
    scope_id,
    kind,
    limit_id,
    namespace,
    attached_at_ms) SELECT a.scope_type,
    a.scope_id,
    a.kind,
    a.limit_id,
    a.namespace,
    a.now_ms_
    FROM a
    WHERE true
    ON CONFLICT DO NOTHING RETURNING t.scope_type AS r_scope_type,
    t.scope_id AS r_scope_id,
    t.kind AS r_kind,
    t.limit_id AS r_limit_id)
SELECT (SELECT now_ms FROM clk),
    count(*),
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_scope_type) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_scope_id) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_kind) END,
    CASE WHEN count(*) < cardinality($2::text[]) THEN array_agg(g.r_limit_id) END
    FROM g;
