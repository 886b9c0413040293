-- sweep_delayed()

WITH clk AS MATERIALIZED (SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
a AS MATERIALIZED (SELECT u.wanted_ AS wanted_,
    u.n_,
    clk.now_ms AS now_ms_
    FROM clk,
    unnest($2::bigint[]) WITH ORDINALITY AS u(wanted_, n_)),
q AS MATERIALIZED (SELECT t.partition_key AS w_partition_key,
    t.execution_id AS w_execution_id
    FROM ff_exec_core AS t
    WHERE t.lifecycle_phase = 'runnable'
    AND t.eligibility_state = 'not_eligible_until_time'
    AND t.delay_until_ms <= (SELECT now_ms FROM clk)
    AND t.eligibility_state = 'not_eligible_until_time'::text
    ORDER BY t.delay_until_ms,
    t.execution_id LIMIT (SELECT sum(wanted_) FROM a) FOR UPDATE OF t SKIP LOCKED),
p AS MATERIALIZED (SELECT r.n_ AS request_,
    d.*,
    r.now_ms_
    FROM (SELECT q.*, row_number() OVER () AS place_ FROM q) AS d JOIN (SELECT a.*, sum(wanted_) OVER (ORDER BY n_) AS upto_ FROM a) AS r ON d.place_ > r.upto_ - r.wanted_
    AND d.place_ <= r.upto_),
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
