-- sweep_delayed()

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
q AS MATERIALIZED (SELECT t.partition_key AS w_partition_key,
    t.execution_id AS w_execution_id
    FROM ff_exec_core AS t
    WHERE t.lifecycle_phase = 'runnable'
    AND t.eligibility_state = 'not_eligible_until_time'
    AND t.delay_until_ms <= (SELECT now_ms FROM clk)
    AND t.eligibility_state = 'not_eligible_until_time'::text
    ORDER BY t.delay_until_ms,
    t.execution_id LIMIT cardinality($2::int[]) FOR UPDATE OF t SKIP LOCKED),
p AS MATERIALIZED (SELECT d.*,
    clk.now_ms AS now_ms_
    FROM clk,
    (SELECT o.*, ($2::int[])[o.place_] AS request_ FROM (SELECT q.*, (row_number() OVER ())::int AS place_ FROM q) AS o) AS d),
g AS (UPDATE ff_exec_core AS t
    SET version = t.version + 1,
    last_mutation_at = p.now_ms_,
    last_transition_at = p.now_ms_,
    lifecycle_phase = 'runnable'::text,
    ownership_state = 'unowned'::text,
    eligibility_state = 'eligible_now'::text,
    blocking_reason = 'waiting_for_worker'::text,
    blocking_detail = ''::text,
    terminal_outcome = 'none'::text,
    public_state = 'waiting'::text,
    delay_until_ms = NULL::bigint
    FROM p
    WHERE t.partition_key = p.w_partition_key
    AND t.execution_id = p.w_execution_id RETURNING p.request_,
    p.place_,
    p.now_ms_,
    p.w_partition_key,
    p.w_execution_id,
    t.partition_key AS r_partition_key,
    t.execution_id AS r_execution_id,
    t.lane_id AS r_lane_id)
SELECT (SELECT now_ms FROM clk),
    g.request_,
    g.place_,
    g.r_partition_key,
    g.r_execution_id,
    g.r_lane_id
    FROM g;
