CREATE TABLE ff_exec_core (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    flow_id uuid,
    quota_policy_id uuid,
    priority bigint NOT NULL DEFAULT 0,
    created_at_ms bigint NOT NULL,
    deadline_at_ms bigint,
    max_reclaim_count integer,
    attempt_timeout_ms bigint,
    retention_ttl_ms bigint,
    failed_retention_ttl_ms bigint,
    lane_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL DEFAULT 'default',
    instance_tag text COLLATE "C",
    execution_kind text COLLATE "C" NOT NULL DEFAULT '',
    creator_identity text COLLATE "C" NOT NULL DEFAULT '',
    idempotency_key text COLLATE "C",
    payload_encoding text COLLATE "C",
    required_capabilities text[] NOT NULL DEFAULT '{}',
    budget_ids text[] NOT NULL DEFAULT '{}',
    gate text COLLATE "C" NOT NULL DEFAULT '',
    deadline_origin text COLLATE "C",
    tags json NOT NULL DEFAULT '{}',
    raw_fields json NOT NULL DEFAULT '{}',
    policy json,
    started_at_ms bigint,
    terminal_at_ms bigint,
    last_transition_at bigint NOT NULL DEFAULT 0,
    last_mutation_at bigint NOT NULL DEFAULT 0,
    delay_until_ms bigint,
    attempt_index integer NOT NULL DEFAULT 0,
    total_attempt_count integer NOT NULL DEFAULT 0,
    retry_count integer NOT NULL DEFAULT 0,
    replay_count integer NOT NULL DEFAULT 0,
    lease_reclaim_count integer NOT NULL DEFAULT 0,
    attempt_timeout_at_ms bigint,
    attempt_timeout_remaining_ms bigint,
    retain_until_ms bigint,
    current_attempt_id uuid,
    current_lease_id uuid,
    lease_epoch integer NOT NULL DEFAULT 0,
    version integer NOT NULL DEFAULT 0,
    lease_acquired_at bigint,
    lease_expires_at_ms bigint,
    lease_last_renewed_at bigint,
    lease_renewal_deadline bigint,
    lease_expired_at bigint,
    expired_epoch integer,
    closing_epoch integer,
    closing_attempt_index integer,
    pending_previous_attempt_index integer,
    reserved_until_ms bigint,
    progress_pct integer,
    progress_updated_at bigint,
    last_capability_mismatch_at bigint,
    current_suspension_id uuid,
    current_waitpoint_id uuid,
    last_hmac_validation_failed_at bigint,
    blocked_on text COLLATE "C",
    lifecycle_phase text COLLATE "C" NOT NULL,
    ownership_state text COLLATE "C" NOT NULL DEFAULT 'unowned',
    eligibility_state text COLLATE "C" NOT NULL,
    blocking_reason text COLLATE "C" NOT NULL DEFAULT 'none',
    blocking_detail text COLLATE "C" NOT NULL DEFAULT '',
    terminal_outcome text COLLATE "C" NOT NULL DEFAULT 'none',
    attempt_state text COLLATE "C" NOT NULL,
    public_state text COLLATE "C" NOT NULL,
    current_worker_id text COLLATE "C",
    current_worker_instance_id text COLLATE "C",
    interrupt_cause text COLLATE "C",
    pending_retry_reason text COLLATE "C",
    pending_replay_reason text COLLATE "C",
    pending_replay_requested_by text COLLATE "C",
    pending_attempt_policy json,
    reserved_for text COLLATE "C",
    failure_reason text COLLATE "C",
    last_failure_message text COLLATE "C",
    cancellation_reason text COLLATE "C",
    cancelled_by text COLLATE "C",
    progress_message text COLLATE "C",
    result_encoding text COLLATE "C",
    result bytea,
    payload bytea,
    PRIMARY KEY (partition_key, execution_id)
) WITH (fillfactor = 50, toast_tuple_target = 512, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE ff_attempt (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    attempt_index bigint NOT NULL,
    attempt_id uuid,
    lease_id uuid,
    lease_epoch bigint NOT NULL DEFAULT 0,
    created_at_ms bigint NOT NULL DEFAULT 0,
    started_at_ms bigint,
    previous_attempt_index bigint,
    replayed_from_attempt_index bigint,
    attempt_type text COLLATE "C" NOT NULL DEFAULT 'initial',
    worker_id text COLLATE "C",
    worker_instance_id text COLLATE "C",
    retry_reason text COLLATE "C",
    replay_reason text COLLATE "C",
    replay_requested_by text COLLATE "C",
    usage json NOT NULL DEFAULT '{"last_usage_report_seq":0}',
    policy json,
    raw_fields json NOT NULL DEFAULT '{}',
    lease_expires_at_ms bigint,
    resumed_at_ms bigint,
    suspended_at_ms bigint,
    terminal_at_ms bigint,
    attempt_timeout_at_ms bigint,
    attempt_timeout_remaining_ms bigint,
    attempt_state text COLLATE "C" NOT NULL DEFAULT 'created',
    suspension_id text COLLATE "C",
    outcome text COLLATE "C",
    failure_reason text COLLATE "C",
    failure_category text COLLATE "C",
    reclaim_reason text COLLATE "C",
    PRIMARY KEY (partition_key, execution_id, attempt_index)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE ff_stream_meta (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    attempt_index bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    frame_count bigint NOT NULL DEFAULT 0,
    total_bytes bigint NOT NULL DEFAULT 0,
    last_ts_ms bigint NOT NULL DEFAULT 0,
    last_seq bigint NOT NULL DEFAULT 0,
    has_durable_frame bigint NOT NULL DEFAULT 0,
    durable_count bigint NOT NULL DEFAULT 0,
    durable_trimmed bigint NOT NULL DEFAULT 0,
    summary_count bigint NOT NULL DEFAULT 0,
    summary_trimmed bigint NOT NULL DEFAULT 0,
    live_count bigint NOT NULL DEFAULT 0,
    live_trimmed bigint NOT NULL DEFAULT 0,
    ema_rate_hz double precision,
    last_append_ts_ms bigint,
    maxlen_applied_last bigint,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, execution_id, attempt_index)
);

CREATE TABLE ff_stream_frame (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    attempt_index bigint NOT NULL,
    ts_ms bigint NOT NULL,
    seq bigint NOT NULL,
    mode text COLLATE "C" NOT NULL DEFAULT 'durable',
    number bigint NOT NULL,
    mode_number bigint NOT NULL,
    client_seq bigint,
    expires_at_ms bigint,
    created_at_ms bigint NOT NULL,
    fields json NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition_key, execution_id, attempt_index, ts_ms, seq)
);

CREATE TABLE ff_stream_summary (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    attempt_index bigint NOT NULL,
    document_json json NOT NULL DEFAULT '{}',
    version bigint NOT NULL DEFAULT 1,
    patch_kind text COLLATE "C" NOT NULL DEFAULT 'json-merge-patch',
    last_updated_ms bigint NOT NULL,
    first_applied_ms bigint NOT NULL,
    PRIMARY KEY (partition_key, execution_id, attempt_index)
);

CREATE TABLE ff_step (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    position bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL DEFAULT 'step',
    attempt_index bigint NOT NULL DEFAULT 0,
    recorded_at_ms bigint NOT NULL,
    value bytea,
    PRIMARY KEY (partition_key, execution_id, position)
);

CREATE TABLE ff_claim_grant (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    grant_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C" NOT NULL,
    worker_instance_id text COLLATE "C" NOT NULL,
    lane_id text COLLATE "C" NOT NULL,
    capability_hash text COLLATE "C",
    worker_capabilities text[] NOT NULL DEFAULT '{}',
    route_snapshot_json json,
    admission_summary text COLLATE "C",
    grant_ttl_ms bigint NOT NULL,
    issued_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (partition_key, execution_id)
);

CREATE TABLE ff_lane_registry (
    lane_id text COLLATE "C" NOT NULL,
    registered_at_ms bigint NOT NULL,
    registered_by text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'active',
    updated_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (lane_id)
);

CREATE TABLE ff_idempotency (
    namespace text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    expires_at_ms bigint,
    digest text COLLATE "C",
    PRIMARY KEY (namespace, idempotency_key)
);

CREATE TABLE ff_worker_registry (
    namespace text COLLATE "C" NOT NULL,
    worker_instance_id text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C" NOT NULL,
    lanes text[] NOT NULL DEFAULT '{}',
    capabilities text[] NOT NULL DEFAULT '{}',
    last_heartbeat_ms bigint NOT NULL,
    liveness_ttl_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    registered_at_ms bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, worker_instance_id)
);

CREATE TABLE ff_worker_registry_event (
    event_id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1),
    namespace text COLLATE "C" NOT NULL,
    worker_instance_id text COLLATE "C" NOT NULL,
    event_kind text COLLATE "C" NOT NULL,
    event_at_ms bigint NOT NULL,
    reason text COLLATE "C",
    PRIMARY KEY (event_id)
);

CREATE TABLE ff_flow_core (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    graph_revision bigint NOT NULL DEFAULT 0,
    public_flow_state text COLLATE "C" NOT NULL DEFAULT 'open',
    created_at_ms bigint NOT NULL,
    terminal_at_ms bigint,
    version bigint NOT NULL DEFAULT 0,
    settled_at_ms bigint,
    parent_partition bigint,
    parent_execution_id uuid,
    raw_fields json NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition_key, flow_id)
);

CREATE TABLE ff_edge (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    edge_id uuid NOT NULL,
    upstream_eid uuid NOT NULL,
    downstream_eid uuid NOT NULL,
    edge_state text COLLATE "C" NOT NULL DEFAULT 'pending',
    dep_state text COLLATE "C",
    applied_at_ms bigint,
    last_resolved_at_ms bigint,
    reset_at_ms bigint,
    policy json NOT NULL DEFAULT '{}',
    policy_version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, flow_id, edge_id)
);

CREATE TABLE ff_edge_group (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    downstream_eid uuid NOT NULL,
    policy json NOT NULL DEFAULT '{}',
    k_target bigint NOT NULL DEFAULT 0,
    success_count bigint NOT NULL DEFAULT 0,
    fail_count bigint NOT NULL DEFAULT 0,
    skip_count bigint NOT NULL DEFAULT 0,
    running_count bigint NOT NULL DEFAULT 0,
    group_state text COLLATE "C" NOT NULL DEFAULT 'pending',
    satisfied_at_ms bigint,
    cancel_siblings_pending_flag bigint NOT NULL DEFAULT 0,
    cancel_siblings_pending_members json NOT NULL DEFAULT '[]',
    cancel_siblings_reason text COLLATE "C",
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, flow_id, downstream_eid)
);

CREATE TABLE ff_pending_cancel_groups (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    downstream_eid uuid NOT NULL,
    enqueued_at_ms bigint NOT NULL,
    PRIMARY KEY (partition_key, flow_id, downstream_eid)
);

CREATE TABLE ff_cancel_backlog (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    requested_at_ms bigint NOT NULL,
    requester text COLLATE "C" NOT NULL DEFAULT '',
    reason text COLLATE "C" NOT NULL DEFAULT '',
    grace_until_ms bigint,
    cancellation_policy text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    PRIMARY KEY (partition_key, flow_id)
);

CREATE TABLE ff_cancel_backlog_member (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    execution_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (partition_key, flow_id, execution_id)
);

CREATE TABLE ff_flow_summary (
    partition_key bigint NOT NULL,
    flow_id uuid NOT NULL,
    total_members bigint NOT NULL DEFAULT 0,
    sampled_members bigint NOT NULL DEFAULT 0,
    members_completed bigint NOT NULL DEFAULT 0,
    members_failed bigint NOT NULL DEFAULT 0,
    members_cancelled bigint NOT NULL DEFAULT 0,
    members_expired bigint NOT NULL DEFAULT 0,
    members_skipped bigint NOT NULL DEFAULT 0,
    members_active bigint NOT NULL DEFAULT 0,
    members_suspended bigint NOT NULL DEFAULT 0,
    members_waiting bigint NOT NULL DEFAULT 0,
    members_delayed bigint NOT NULL DEFAULT 0,
    members_rate_limited bigint NOT NULL DEFAULT 0,
    members_waiting_children bigint NOT NULL DEFAULT 0,
    public_flow_state text COLLATE "C" NOT NULL,
    last_summary_update_at bigint NOT NULL,
    PRIMARY KEY (partition_key, flow_id)
);

CREATE TABLE ff_lease_event (
    event_id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1),
    execution_id uuid NOT NULL,
    lease_id uuid,
    lease_epoch bigint,
    occurred_at_ms bigint NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    worker_instance_id text COLLATE "C",
    event_type text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    namespace text COLLATE "C",
    instance_tag text COLLATE "C",
    PRIMARY KEY (event_id)
);

CREATE TABLE ff_completion_event (
    event_id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1),
    execution_id uuid NOT NULL,
    flow_id uuid,
    occurred_at_ms bigint NOT NULL,
    committed_at_ms bigint NOT NULL DEFAULT 0,
    dispatched_at_ms bigint,
    partition_key bigint NOT NULL DEFAULT 0,
    outcome text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    instance_tag text COLLATE "C",
    PRIMARY KEY (event_id)
);

CREATE TABLE ff_operator_event (
    event_id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1),
    execution_id uuid NOT NULL,
    occurred_at_ms bigint NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    event_type text COLLATE "C" NOT NULL,
    details json,
    namespace text COLLATE "C",
    instance_tag text COLLATE "C",
    PRIMARY KEY (event_id)
);

CREATE TABLE ff_suspension_current (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    suspension_id uuid NOT NULL,
    suspended_at_ms bigint NOT NULL,
    timeout_at_ms bigint,
    reason_code text COLLATE "C" NOT NULL,
    condition json NOT NULL,
    satisfied_set json NOT NULL DEFAULT '[]',
    timeout_behavior text COLLATE "C",
    attempt_index bigint NOT NULL DEFAULT 0,
    requested_by text COLLATE "C" NOT NULL DEFAULT 'worker',
    resume_policy json NOT NULL DEFAULT '{}',
    continuation_metadata_pointer text COLLATE "C",
    primary_waitpoint_id uuid,
    last_signal_at_ms bigint,
    closer_signal_id uuid,
    satisfier_signal_ids json NOT NULL DEFAULT '[]',
    closed_at_ms bigint,
    close_reason text COLLATE "C",
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, execution_id)
);

CREATE TABLE ff_waitpoint_pending (
    partition_key bigint NOT NULL,
    waitpoint_id uuid NOT NULL,
    execution_id uuid NOT NULL,
    token_kid text COLLATE "C" NOT NULL,
    token_digest text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    waitpoint_key text COLLATE "C" NOT NULL DEFAULT '',
    state text COLLATE "C" NOT NULL DEFAULT 'pending',
    required_signal_names json NOT NULL DEFAULT '[]',
    activated_at_ms bigint,
    attempt_index bigint NOT NULL DEFAULT 0,
    suspension_id uuid,
    signal_count bigint NOT NULL DEFAULT 0,
    matched_signal_count bigint NOT NULL DEFAULT 0,
    last_signal_at_ms bigint,
    satisfied_at_ms bigint,
    closed_at_ms bigint,
    close_reason text COLLATE "C",
    version bigint NOT NULL DEFAULT 0,
    signals_trimmed bigint NOT NULL DEFAULT 0,
    payload_schema text COLLATE "C",
    approvers json NOT NULL DEFAULT '[]',
    PRIMARY KEY (partition_key, waitpoint_id)
);

CREATE TABLE ff_signal (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    signal_id uuid NOT NULL,
    waitpoint_id uuid NOT NULL,
    waitpoint_key text COLLATE "C" NOT NULL DEFAULT '',
    suspension_id uuid,
    attempt_index bigint NOT NULL DEFAULT 0,
    signal_name text COLLATE "C" NOT NULL DEFAULT '',
    signal_category text COLLATE "C" NOT NULL DEFAULT '',
    source_type text COLLATE "C" NOT NULL DEFAULT '',
    source_identity text COLLATE "C" NOT NULL DEFAULT '',
    correlation_id text COLLATE "C" NOT NULL DEFAULT '',
    payload_encoding text COLLATE "C",
    target_scope text COLLATE "C" NOT NULL DEFAULT '',
    idempotency_key text COLLATE "C",
    created_at_ms bigint NOT NULL,
    accepted_at_ms bigint NOT NULL,
    observed_effect text COLLATE "C" NOT NULL,
    matched bigint NOT NULL DEFAULT 0,
    payload bytea,
    comment text COLLATE "C" NOT NULL DEFAULT '',
    link text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (partition_key, execution_id, signal_id)
);

CREATE TABLE ff_signal_dedup (
    partition_key bigint NOT NULL,
    waitpoint_id uuid NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    execution_id uuid NOT NULL,
    signal_id uuid NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (partition_key, waitpoint_id, idempotency_key)
);

CREATE TABLE ff_suspend_dedup (
    partition_key bigint NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    execution_id uuid NOT NULL,
    outcome_json text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (partition_key, idempotency_key)
);

CREATE TABLE ff_waitpoint_hmac (
    kid text COLLATE "C" NOT NULL,
    rotated_at_ms bigint NOT NULL,
    active bigint NOT NULL DEFAULT 0,
    expires_at_ms bigint,
    secret bytea NOT NULL,
    PRIMARY KEY (kid)
);

CREATE TABLE ff_signal_event (
    event_id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1),
    execution_id uuid NOT NULL,
    signal_id uuid NOT NULL,
    waitpoint_id uuid NOT NULL,
    occurred_at_ms bigint NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    source_identity text COLLATE "C",
    event_type text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    instance_tag text COLLATE "C",
    PRIMARY KEY (event_id)
);

CREATE TABLE ff_outbox_trim (
    channel text COLLATE "C" NOT NULL,
    event_id bigint NOT NULL,
    PRIMARY KEY (channel)
);

CREATE TABLE ff_budget_policy (
    budget_id uuid NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    namespace text COLLATE "C" NOT NULL DEFAULT 'default',
    policy_json json NOT NULL,
    scope_type text COLLATE "C" NOT NULL DEFAULT '',
    scope_id text COLLATE "C" NOT NULL DEFAULT '',
    enforcement_mode text COLLATE "C" NOT NULL DEFAULT '',
    breach_count bigint NOT NULL DEFAULT 0,
    soft_breach_count bigint NOT NULL DEFAULT 0,
    last_breach_at_ms bigint,
    last_breach_dim text COLLATE "C",
    next_reset_at_ms bigint,
    changed_at_ms bigint,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (budget_id)
);

CREATE TABLE ff_budget_usage (
    budget_id uuid NOT NULL,
    dimensions_key text COLLATE "C" NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    current_value bigint NOT NULL DEFAULT 0,
    last_reset_at_ms bigint,
    updated_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (budget_id, dimensions_key)
);

CREATE TABLE ff_budget_usage_dedup (
    budget_id uuid NOT NULL,
    dedup_key text COLLATE "C" NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    outcome_json json NOT NULL DEFAULT '{}',
    applied_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (budget_id, dedup_key)
);

CREATE TABLE ff_budget_usage_by_exec (
    partition_key bigint NOT NULL,
    execution_id uuid NOT NULL,
    dimensions_key text COLLATE "C" NOT NULL,
    budget_id uuid NOT NULL,
    delta_total bigint NOT NULL DEFAULT 0,
    updated_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, execution_id, dimensions_key, budget_id)
);

CREATE TABLE ff_quota_policy (
    quota_policy_id uuid NOT NULL,
    partition_key bigint NOT NULL DEFAULT 0,
    namespace text COLLATE "C" NOT NULL DEFAULT 'default',
    requests_per_window_seconds bigint NOT NULL,
    max_requests_per_window bigint NOT NULL,
    active_concurrency_cap bigint NOT NULL,
    active_concurrency bigint NOT NULL DEFAULT 0,
    jitter_ms bigint NOT NULL DEFAULT 0,
    closed_until_ms bigint,
    changed_at_ms bigint,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (quota_policy_id)
);

CREATE TABLE ff_quota_window (
    quota_policy_id uuid NOT NULL,
    dimension text COLLATE "C" NOT NULL,
    admitted_at_ms bigint NOT NULL,
    execution_id uuid NOT NULL,
    PRIMARY KEY (quota_policy_id, dimension, admitted_at_ms, execution_id)
);

CREATE TABLE ff_quota_admitted (
    quota_policy_id uuid NOT NULL,
    execution_id text COLLATE "C" NOT NULL,
    admitted_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    PRIMARY KEY (quota_policy_id, execution_id)
);

CREATE TABLE ff_limit_scope (
    scope_type text COLLATE "C" NOT NULL,
    scope_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    limit_id uuid NOT NULL,
    attached_at_ms bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL DEFAULT 'default',
    PRIMARY KEY (scope_type, scope_id, kind, limit_id)
);

CREATE TABLE ff_lane_gate (
    lane_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    gate text COLLATE "C" NOT NULL,
    quota_policy_id uuid,
    PRIMARY KEY (lane_id, namespace, gate)
);

CREATE TABLE ff_task (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    task_version bigint NOT NULL DEFAULT 0,
    quota_policy_id uuid,
    declared_at_ms bigint NOT NULL,
    registered_at_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    last_seen_ms bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    head text COLLATE "C" NOT NULL,
    declaration text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE ff_schedule (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    cursor_ms bigint NOT NULL,
    paused bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE ff_bulk_job (
    job_id uuid NOT NULL,
    namespace text COLLATE "C",
    action text COLLATE "C" NOT NULL,
    args json NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'running',
    cursor text COLLATE "C",
    matched bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    errors json NOT NULL DEFAULT '[]',
    follow_ups json NOT NULL DEFAULT '[]',
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    ended_at_ms bigint,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id)
);

CREATE TABLE ff_api_token (
    token_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    former_digest bytea,
    former_until_ms bigint,
    roles text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    lanes text COLLATE "C",
    created_at_ms bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL DEFAULT '',
    expires_at_ms bigint,
    rotated_at_ms bigint,
    revoked_at_ms bigint,
    last_used_at_ms bigint,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (token_id)
);

CREATE TABLE ff_leader (
    name text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    backend bigint NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (name)
);

CREATE INDEX ff_exec_core_unowned_idx ON ff_exec_core (created_at_ms, execution_id) WHERE ownership_state != 'leased' AND ownership_state != 'lease_expired_reclaimable';

CREATE INDEX ff_exec_core_suspended_executions_idx ON ff_exec_core (created_at_ms, execution_id) WHERE lifecycle_phase = 'suspended';

CREATE INDEX ff_exec_core_ready_idx ON ff_exec_core (lane_id, namespace, gate, priority DESC, created_at_ms, execution_id) WHERE lifecycle_phase = 'runnable' AND eligibility_state = 'eligible_now';

CREATE INDEX ff_exec_core_held_idx ON ff_exec_core (quota_policy_id, execution_id) WHERE quota_policy_id IS NOT NULL AND ownership_state = 'leased';

CREATE INDEX ff_exec_core_reserved_idx ON ff_exec_core (quota_policy_id, reserved_until_ms, execution_id) WHERE quota_policy_id IS NOT NULL AND reserved_until_ms IS NOT NULL;

CREATE INDEX ff_exec_core_blocked_on_idx ON ff_exec_core (blocked_on, priority DESC, created_at_ms, execution_id) WHERE eligibility_state IN ('blocked_by_budget', 'blocked_by_quota') AND blocked_on IS NOT NULL;

CREATE INDEX ff_exec_core_delayed_idx ON ff_exec_core (delay_until_ms, execution_id) WHERE lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time';

CREATE INDEX ff_exec_core_leased_idx ON ff_exec_core (lease_expires_at_ms, execution_id) WHERE ownership_state = 'leased';

CREATE INDEX ff_exec_core_lost_idx ON ff_exec_core (lease_expires_at_ms, execution_id) WHERE ownership_state = 'lease_expired_reclaimable';

CREATE INDEX ff_exec_core_attempt_timeout_idx ON ff_exec_core (attempt_timeout_at_ms, execution_id) WHERE attempt_timeout_at_ms IS NOT NULL AND lifecycle_phase = 'active';

CREATE INDEX ff_exec_core_deadline_idx ON ff_exec_core (deadline_at_ms, execution_id) WHERE deadline_at_ms IS NOT NULL AND lifecycle_phase IN ('submitted', 'runnable', 'active', 'suspended');

CREATE INDEX ff_exec_core_routed_idx ON ff_exec_core (last_transition_at, execution_id) WHERE lifecycle_phase = 'runnable' AND eligibility_state = 'blocked_by_route';

CREATE INDEX ff_exec_core_limited_idx ON ff_exec_core (last_transition_at, execution_id) WHERE lifecycle_phase = 'runnable' AND eligibility_state IN ('blocked_by_budget', 'blocked_by_quota');

CREATE INDEX ff_exec_core_blocked_idx ON ff_exec_core (last_transition_at, execution_id) WHERE lifecycle_phase = 'runnable' AND eligibility_state IN ('blocked_by_operator', 'blocked_by_lane_state');

CREATE INDEX ff_exec_core_ended_idx ON ff_exec_core (lane_id, terminal_at_ms, execution_id) WHERE lifecycle_phase IN ('terminal', 'cancelled') AND retain_until_ms IS NULL AND terminal_outcome != 'failed' AND terminal_outcome != 'expired';

CREATE INDEX ff_exec_core_failed_idx ON ff_exec_core (lane_id, terminal_at_ms, execution_id) WHERE lifecycle_phase IN ('terminal', 'cancelled') AND retain_until_ms IS NULL AND terminal_outcome IN ('failed', 'expired');

CREATE INDEX ff_exec_core_retained_idx ON ff_exec_core (lane_id, retain_until_ms, execution_id) WHERE lifecycle_phase IN ('terminal', 'cancelled') AND retain_until_ms IS NOT NULL;

CREATE INDEX ff_claim_grant_grants_idx ON ff_claim_grant (expires_at_ms, execution_id);

CREATE INDEX ff_idempotency_idempotency_idx ON ff_idempotency (expires_at_ms, namespace, idempotency_key) WHERE expires_at_ms IS NOT NULL;

CREATE INDEX ff_worker_registry_worker_expiry_idx ON ff_worker_registry (expires_at_ms, namespace, worker_instance_id);

CREATE INDEX ff_worker_registry_event_worker_events_idx ON ff_worker_registry_event (event_at_ms, event_id);

CREATE INDEX ff_exec_core_members_idx ON ff_exec_core (partition_key, flow_id, execution_id) WHERE flow_id IS NOT NULL;

CREATE INDEX ff_exec_core_dependent_idx ON ff_exec_core (last_transition_at, execution_id) WHERE lifecycle_phase = 'runnable' AND eligibility_state = 'blocked_by_dependencies';

CREATE INDEX ff_flow_core_unsettled_flows_idx ON ff_flow_core (created_at_ms, flow_id) WHERE settled_at_ms IS NULL;

CREATE INDEX ff_flow_core_children_of_idx ON ff_flow_core (parent_partition, parent_execution_id, flow_id) WHERE parent_execution_id IS NOT NULL;

CREATE INDEX ff_edge_edges_out_idx ON ff_edge (partition_key, upstream_eid, edge_id);

CREATE INDEX ff_edge_edges_in_idx ON ff_edge (partition_key, downstream_eid, edge_id);

CREATE INDEX ff_pending_cancel_groups_cancel_groups_idx ON ff_pending_cancel_groups (enqueued_at_ms, flow_id, downstream_eid);

CREATE INDEX ff_cancel_backlog_cancel_backlog_idx ON ff_cancel_backlog (grace_until_ms, flow_id) WHERE grace_until_ms IS NOT NULL;

CREATE INDEX ff_cancel_backlog_cancel_backlog_since_idx ON ff_cancel_backlog (requested_at_ms, flow_id) WHERE grace_until_ms IS NULL;

CREATE INDEX ff_completion_event_undispatched_idx ON ff_completion_event (committed_at_ms, event_id) WHERE dispatched_at_ms IS NULL AND flow_id IS NOT NULL AND outcome != 'resumable';

CREATE INDEX ff_suspension_current_suspended_idx ON ff_suspension_current (partition_key, suspended_at_ms, execution_id) WHERE closed_at_ms IS NULL;

CREATE INDEX ff_suspension_current_suspension_timeout_idx ON ff_suspension_current (timeout_at_ms, execution_id) WHERE closed_at_ms IS NULL AND timeout_at_ms IS NOT NULL;

CREATE INDEX ff_waitpoint_pending_waitpoints_of_idx ON ff_waitpoint_pending (partition_key, execution_id, waitpoint_id);

CREATE INDEX ff_waitpoint_pending_waitpoint_expiry_idx ON ff_waitpoint_pending (expires_at_ms, waitpoint_id) WHERE state = 'pending' AND expires_at_ms IS NOT NULL;

CREATE INDEX ff_waitpoint_pending_open_waitpoints_idx ON ff_waitpoint_pending (created_at_ms, waitpoint_id) WHERE state IN ('pending', 'active');

CREATE INDEX ff_signal_signals_of_idx ON ff_signal (partition_key, execution_id, accepted_at_ms, signal_id);

CREATE INDEX ff_signal_dedup_signal_dedup_expiry_idx ON ff_signal_dedup (expires_at_ms, waitpoint_id, idempotency_key);

CREATE INDEX ff_suspend_dedup_suspend_dedup_expiry_idx ON ff_suspend_dedup (expires_at_ms, idempotency_key);

CREATE INDEX ff_signal_dedup_signal_dedup_of_idx ON ff_signal_dedup (partition_key, execution_id, waitpoint_id, idempotency_key);

CREATE INDEX ff_suspend_dedup_suspend_dedup_of_idx ON ff_suspend_dedup (partition_key, execution_id, idempotency_key);

CREATE INDEX ff_budget_policy_budget_resets_idx ON ff_budget_policy (next_reset_at_ms, budget_id) WHERE next_reset_at_ms IS NOT NULL;

CREATE INDEX ff_budget_usage_dedup_usage_dedup_expiry_idx ON ff_budget_usage_dedup (expires_at_ms, budget_id, dedup_key);

CREATE INDEX ff_budget_usage_by_exec_ledger_of_budget_idx ON ff_budget_usage_by_exec (budget_id, partition_key, execution_id, dimensions_key);

CREATE INDEX ff_bulk_job_bulk_jobs_idx ON ff_bulk_job (created_at_ms, job_id);

CREATE INDEX ff_bulk_job_bulk_running_idx ON ff_bulk_job (updated_at_ms, job_id) WHERE state = 'running';

CREATE INDEX ff_bulk_job_bulk_ended_idx ON ff_bulk_job (ended_at_ms, job_id) WHERE ended_at_ms IS NOT NULL;

CREATE INDEX ff_api_token_live_tokens_idx ON ff_api_token (token_id) WHERE revoked_at_ms IS NULL;

CREATE INDEX ff_api_token_revoked_tokens_idx ON ff_api_token (revoked_at_ms, token_id) WHERE revoked_at_ms IS NOT NULL;

CREATE INDEX ff_stream_frame_passing_frames_idx ON ff_stream_frame (partition_key, execution_id, attempt_index, mode, mode_number) WHERE mode != 'durable';

CREATE INDEX ff_stream_frame_frames_by_caller_idx ON ff_stream_frame (partition_key, execution_id, attempt_index, client_seq) WHERE client_seq IS NOT NULL;

CREATE INDEX ff_stream_frame_expiring_frames_idx ON ff_stream_frame (expires_at_ms, execution_id, attempt_index, ts_ms, seq) WHERE expires_at_ms IS NOT NULL;

CREATE INDEX ff_signal_event_signal_events_of_idx ON ff_signal_event (execution_id, event_id);

CREATE INDEX ff_lease_event_lease_events_of_idx ON ff_lease_event (execution_id, event_id);

CREATE INDEX ff_completion_event_completion_events_of_idx ON ff_completion_event (execution_id, event_id);

CREATE INDEX ff_operator_event_operator_events_of_idx ON ff_operator_event (execution_id, event_id);

