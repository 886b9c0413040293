-- issue_grant(partition_key, execution_id, version, worker_id, grant_ttl_ms, grant_id, kind, worker_instance_id, lane_id, capability_hash, worker_capabilities, route_snapshot_json, admission_summary)

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.*,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[]) WITH ORDINALITY AS u(partition_key, execution_id, version, worker_id, grant_ttl_ms, grant_id, kind, worker_instance_id, lane_id, capability_hash, worker_capabilities, route_snapshot_json, admission_summary, n_)),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = a.now_ms_,
    reserved_for = a.worker_id,
    reserved_until_ms = (a.now_ms_ + a.grant_ttl_ms)
    FROM a
    WHERE t.partition_key = a.partition_key
    AND t.execution_id = a.execution_id
    AND CASE WHEN t.version = a.version THEN true ELSE false END RETURNING a.*,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.reserved_until_ms AS r_reserved_until_ms),
w1 AS (INSERT INTO ff_claim_grant AS t (partition_key,
    execution_id,
    grant_id,
    kind,
    worker_id,
    worker_instance_id,
    lane_id,
    capability_hash,
    worker_capabilities,
    route_snapshot_json,
    admission_summary,
    grant_ttl_ms,
    issued_at_ms,
    expires_at_ms) SELECT g.r_partition_key,
    g.r_execution_id,
    g.grant_id,
    g.kind,
    g.worker_id,
    g.worker_instance_id,
    g.lane_id,
    g.capability_hash,
    g.worker_capabilities::text[],
    g.route_snapshot_json::json,
    g.admission_summary,
    g.grant_ttl_ms,
    g.now_ms_,
    (g.now_ms_ + g.grant_ttl_ms)
    FROM g
    ON CONFLICT (partition_key,
    execution_id) DO UPDATE
    SET grant_id = EXCLUDED.grant_id,
    kind = EXCLUDED.kind,
    worker_id = EXCLUDED.worker_id,
    worker_instance_id = EXCLUDED.worker_instance_id,
    lane_id = EXCLUDED.lane_id,
    capability_hash = EXCLUDED.capability_hash,
    worker_capabilities = EXCLUDED.worker_capabilities,
    route_snapshot_json = EXCLUDED.route_snapshot_json,
    admission_summary = EXCLUDED.admission_summary,
    grant_ttl_ms = EXCLUDED.grant_ttl_ms,
    issued_at_ms = EXCLUDED.issued_at_ms,
    expires_at_ms = EXCLUDED.expires_at_ms)
SELECT (SELECT now_ms FROM clk),
    g.n_,
    g.r_reserved_until_ms,
    g.r_reserved_until_ms
    FROM g
    ORDER BY g.n_;
