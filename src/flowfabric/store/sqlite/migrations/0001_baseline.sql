CREATE TABLE ff_exec_core (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    flow_id BLOB,
    lane_id TEXT NOT NULL,
    namespace TEXT NOT NULL DEFAULT 'default',
    instance_tag TEXT,
    execution_kind TEXT NOT NULL DEFAULT '',
    creator_identity TEXT NOT NULL DEFAULT '',
    idempotency_key TEXT,
    payload_encoding TEXT,
    required_capabilities TEXT NOT NULL DEFAULT '[]',
    budget_ids TEXT NOT NULL DEFAULT '[]',
    quota_policy_id BLOB,
    gate TEXT NOT NULL DEFAULT '',
    blocked_on TEXT,
    lifecycle_phase TEXT NOT NULL,
    ownership_state TEXT NOT NULL DEFAULT 'unowned',
    eligibility_state TEXT NOT NULL,
    blocking_reason TEXT NOT NULL DEFAULT 'none',
    blocking_detail TEXT NOT NULL DEFAULT '',
    terminal_outcome TEXT NOT NULL DEFAULT 'none',
    attempt_state TEXT NOT NULL,
    public_state TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    terminal_at_ms INTEGER,
    last_transition_at INTEGER NOT NULL DEFAULT 0,
    last_mutation_at INTEGER NOT NULL DEFAULT 0,
    delay_until_ms INTEGER,
    deadline_at_ms INTEGER,
    deadline_origin TEXT,
    attempt_index INTEGER NOT NULL DEFAULT 0,
    total_attempt_count INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    replay_count INTEGER NOT NULL DEFAULT 0,
    lease_reclaim_count INTEGER NOT NULL DEFAULT 0,
    max_reclaim_count INTEGER,
    attempt_timeout_ms INTEGER,
    attempt_timeout_at_ms INTEGER,
    attempt_timeout_remaining_ms INTEGER,
    retention_ttl_ms INTEGER,
    failed_retention_ttl_ms INTEGER,
    retain_until_ms INTEGER,
    current_attempt_id BLOB,
    current_lease_id BLOB,
    lease_epoch INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    current_worker_id TEXT,
    current_worker_instance_id TEXT,
    lease_acquired_at INTEGER,
    lease_expires_at_ms INTEGER,
    lease_last_renewed_at INTEGER,
    lease_renewal_deadline INTEGER,
    lease_expired_at INTEGER,
    expired_epoch INTEGER,
    interrupt_cause TEXT,
    closing_epoch INTEGER,
    closing_attempt_index INTEGER,
    pending_retry_reason TEXT,
    pending_replay_reason TEXT,
    pending_replay_requested_by TEXT,
    pending_previous_attempt_index INTEGER,
    pending_attempt_policy TEXT,
    reserved_for TEXT,
    reserved_until_ms INTEGER,
    failure_reason TEXT,
    last_failure_message TEXT,
    cancellation_reason TEXT,
    cancelled_by TEXT,
    progress_pct INTEGER,
    progress_message TEXT,
    progress_updated_at INTEGER,
    last_capability_mismatch_at INTEGER,
    current_suspension_id BLOB,
    current_waitpoint_id BLOB,
    last_hmac_validation_failed_at INTEGER,
    result_encoding TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    raw_fields TEXT NOT NULL DEFAULT '{}',
    policy TEXT,
    payload BLOB,
    result BLOB,
    PRIMARY KEY (partition_key, execution_id)
);

CREATE TABLE ff_attempt (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    attempt_index INTEGER NOT NULL,
    attempt_id BLOB,
    attempt_type TEXT NOT NULL DEFAULT 'initial',
    attempt_state TEXT NOT NULL DEFAULT 'created',
    worker_id TEXT,
    worker_instance_id TEXT,
    lease_id BLOB,
    lease_epoch INTEGER NOT NULL DEFAULT 0,
    lease_expires_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL DEFAULT 0,
    started_at_ms INTEGER,
    resumed_at_ms INTEGER,
    suspended_at_ms INTEGER,
    suspension_id TEXT,
    terminal_at_ms INTEGER,
    outcome TEXT,
    failure_reason TEXT,
    failure_category TEXT,
    retry_reason TEXT,
    replay_reason TEXT,
    replay_requested_by TEXT,
    reclaim_reason TEXT,
    previous_attempt_index INTEGER,
    replayed_from_attempt_index INTEGER,
    attempt_timeout_at_ms INTEGER,
    attempt_timeout_remaining_ms INTEGER,
    usage TEXT NOT NULL DEFAULT '{"last_usage_report_seq":0}',
    policy TEXT,
    raw_fields TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition_key, execution_id, attempt_index)
);

CREATE TABLE ff_stream_meta (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    attempt_index INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    frame_count INTEGER NOT NULL DEFAULT 0,
    total_bytes INTEGER NOT NULL DEFAULT 0,
    last_ts_ms INTEGER NOT NULL DEFAULT 0,
    last_seq INTEGER NOT NULL DEFAULT 0,
    has_durable_frame INTEGER NOT NULL DEFAULT 0,
    durable_count INTEGER NOT NULL DEFAULT 0,
    durable_trimmed INTEGER NOT NULL DEFAULT 0,
    summary_count INTEGER NOT NULL DEFAULT 0,
    summary_trimmed INTEGER NOT NULL DEFAULT 0,
    live_count INTEGER NOT NULL DEFAULT 0,
    live_trimmed INTEGER NOT NULL DEFAULT 0,
    ema_rate_hz REAL,
    last_append_ts_ms INTEGER,
    maxlen_applied_last INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, execution_id, attempt_index)
);

CREATE TABLE ff_stream_frame (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    attempt_index INTEGER NOT NULL,
    ts_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    mode TEXT NOT NULL DEFAULT 'durable',
    number INTEGER NOT NULL,
    mode_number INTEGER NOT NULL,
    client_seq INTEGER,
    expires_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    fields TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition_key, execution_id, attempt_index, ts_ms, seq)
);

CREATE TABLE ff_stream_summary (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    attempt_index INTEGER NOT NULL,
    document_json TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL DEFAULT 1,
    patch_kind TEXT NOT NULL DEFAULT 'json-merge-patch',
    last_updated_ms INTEGER NOT NULL,
    first_applied_ms INTEGER NOT NULL,
    PRIMARY KEY (partition_key, execution_id, attempt_index)
);

CREATE TABLE ff_step (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL DEFAULT 'step',
    attempt_index INTEGER NOT NULL DEFAULT 0,
    recorded_at_ms INTEGER NOT NULL,
    value BLOB,
    PRIMARY KEY (partition_key, execution_id, position)
);

CREATE TABLE ff_claim_grant (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    grant_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    worker_instance_id TEXT NOT NULL,
    lane_id TEXT NOT NULL,
    capability_hash TEXT,
    worker_capabilities TEXT NOT NULL DEFAULT '[]',
    route_snapshot_json TEXT,
    admission_summary TEXT,
    grant_ttl_ms INTEGER NOT NULL,
    issued_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (partition_key, execution_id)
);

CREATE TABLE ff_lane_registry (
    lane_id TEXT NOT NULL,
    registered_at_ms INTEGER NOT NULL,
    registered_by TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'active',
    updated_at_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lane_id)
);

CREATE TABLE ff_idempotency (
    namespace TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    expires_at_ms INTEGER,
    digest TEXT,
    PRIMARY KEY (namespace, idempotency_key)
);

CREATE TABLE ff_worker_registry (
    namespace TEXT NOT NULL,
    worker_instance_id TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    lanes TEXT NOT NULL DEFAULT '[]',
    capabilities TEXT NOT NULL DEFAULT '[]',
    last_heartbeat_ms INTEGER NOT NULL,
    liveness_ttl_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    registered_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, worker_instance_id)
);

CREATE TABLE ff_worker_registry_event (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    worker_instance_id TEXT NOT NULL,
    event_kind TEXT NOT NULL,
    event_at_ms INTEGER NOT NULL,
    reason TEXT
);

CREATE TABLE ff_flow_core (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    graph_revision INTEGER NOT NULL DEFAULT 0,
    public_flow_state TEXT NOT NULL DEFAULT 'open',
    created_at_ms INTEGER NOT NULL,
    terminal_at_ms INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    settled_at_ms INTEGER,
    parent_partition INTEGER,
    parent_execution_id BLOB,
    raw_fields TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition_key, flow_id)
);

CREATE TABLE ff_edge (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    edge_id BLOB NOT NULL,
    upstream_eid BLOB NOT NULL,
    downstream_eid BLOB NOT NULL,
    edge_state TEXT NOT NULL DEFAULT 'pending',
    dep_state TEXT,
    applied_at_ms INTEGER,
    last_resolved_at_ms INTEGER,
    reset_at_ms INTEGER,
    policy TEXT NOT NULL DEFAULT '{}',
    policy_version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, flow_id, edge_id)
);

CREATE TABLE ff_edge_group (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    downstream_eid BLOB NOT NULL,
    policy TEXT NOT NULL DEFAULT '{}',
    k_target INTEGER NOT NULL DEFAULT 0,
    success_count INTEGER NOT NULL DEFAULT 0,
    fail_count INTEGER NOT NULL DEFAULT 0,
    skip_count INTEGER NOT NULL DEFAULT 0,
    running_count INTEGER NOT NULL DEFAULT 0,
    group_state TEXT NOT NULL DEFAULT 'pending',
    satisfied_at_ms INTEGER,
    cancel_siblings_pending_flag INTEGER NOT NULL DEFAULT 0,
    cancel_siblings_pending_members TEXT NOT NULL DEFAULT '[]',
    cancel_siblings_reason TEXT,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, flow_id, downstream_eid)
);

CREATE TABLE ff_pending_cancel_groups (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    downstream_eid BLOB NOT NULL,
    enqueued_at_ms INTEGER NOT NULL,
    PRIMARY KEY (partition_key, flow_id, downstream_eid)
);

CREATE TABLE ff_cancel_backlog (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    requested_at_ms INTEGER NOT NULL,
    requester TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    grace_until_ms INTEGER,
    cancellation_policy TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    PRIMARY KEY (partition_key, flow_id)
);

CREATE TABLE ff_cancel_backlog_member (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    execution_id TEXT NOT NULL,
    PRIMARY KEY (partition_key, flow_id, execution_id)
);

CREATE TABLE ff_flow_summary (
    partition_key INTEGER NOT NULL,
    flow_id BLOB NOT NULL,
    total_members INTEGER NOT NULL DEFAULT 0,
    sampled_members INTEGER NOT NULL DEFAULT 0,
    members_completed INTEGER NOT NULL DEFAULT 0,
    members_failed INTEGER NOT NULL DEFAULT 0,
    members_cancelled INTEGER NOT NULL DEFAULT 0,
    members_expired INTEGER NOT NULL DEFAULT 0,
    members_skipped INTEGER NOT NULL DEFAULT 0,
    members_active INTEGER NOT NULL DEFAULT 0,
    members_suspended INTEGER NOT NULL DEFAULT 0,
    members_waiting INTEGER NOT NULL DEFAULT 0,
    members_delayed INTEGER NOT NULL DEFAULT 0,
    members_rate_limited INTEGER NOT NULL DEFAULT 0,
    members_waiting_children INTEGER NOT NULL DEFAULT 0,
    public_flow_state TEXT NOT NULL,
    last_summary_update_at INTEGER NOT NULL,
    PRIMARY KEY (partition_key, flow_id)
);

CREATE TABLE ff_lease_event (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    lease_id TEXT,
    lease_epoch INTEGER,
    worker_instance_id TEXT,
    event_type TEXT NOT NULL,
    reason TEXT,
    occurred_at_ms INTEGER NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    namespace TEXT,
    instance_tag TEXT
);

CREATE TABLE ff_completion_event (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id BLOB NOT NULL,
    flow_id BLOB,
    outcome TEXT NOT NULL,
    occurred_at_ms INTEGER NOT NULL,
    committed_at_ms INTEGER NOT NULL DEFAULT 0,
    dispatched_at_ms INTEGER,
    partition_key INTEGER NOT NULL DEFAULT 0,
    namespace TEXT,
    instance_tag TEXT
);

CREATE TABLE ff_operator_event (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    details TEXT,
    occurred_at_ms INTEGER NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    namespace TEXT,
    instance_tag TEXT
);

CREATE TABLE ff_suspension_current (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    suspension_id BLOB NOT NULL,
    suspended_at_ms INTEGER NOT NULL,
    timeout_at_ms INTEGER,
    reason_code TEXT NOT NULL,
    condition TEXT NOT NULL,
    satisfied_set TEXT NOT NULL DEFAULT '[]',
    timeout_behavior TEXT,
    attempt_index INTEGER NOT NULL DEFAULT 0,
    requested_by TEXT NOT NULL DEFAULT 'worker',
    resume_policy TEXT NOT NULL DEFAULT '{}',
    continuation_metadata_pointer TEXT,
    primary_waitpoint_id BLOB,
    last_signal_at_ms INTEGER,
    closer_signal_id BLOB,
    satisfier_signal_ids TEXT NOT NULL DEFAULT '[]',
    closed_at_ms INTEGER,
    close_reason TEXT,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, execution_id)
);

CREATE TABLE ff_waitpoint_pending (
    partition_key INTEGER NOT NULL,
    waitpoint_id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    token_kid TEXT NOT NULL,
    token_digest TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    waitpoint_key TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'pending',
    required_signal_names TEXT NOT NULL DEFAULT '[]',
    activated_at_ms INTEGER,
    attempt_index INTEGER NOT NULL DEFAULT 0,
    suspension_id BLOB,
    signal_count INTEGER NOT NULL DEFAULT 0,
    matched_signal_count INTEGER NOT NULL DEFAULT 0,
    last_signal_at_ms INTEGER,
    satisfied_at_ms INTEGER,
    closed_at_ms INTEGER,
    close_reason TEXT,
    version INTEGER NOT NULL DEFAULT 0,
    signals_trimmed INTEGER NOT NULL DEFAULT 0,
    payload_schema TEXT,
    approvers TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (partition_key, waitpoint_id)
);

CREATE TABLE ff_signal (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    signal_id BLOB NOT NULL,
    waitpoint_id BLOB NOT NULL,
    waitpoint_key TEXT NOT NULL DEFAULT '',
    suspension_id BLOB,
    attempt_index INTEGER NOT NULL DEFAULT 0,
    signal_name TEXT NOT NULL DEFAULT '',
    signal_category TEXT NOT NULL DEFAULT '',
    source_type TEXT NOT NULL DEFAULT '',
    source_identity TEXT NOT NULL DEFAULT '',
    correlation_id TEXT NOT NULL DEFAULT '',
    payload_encoding TEXT,
    target_scope TEXT NOT NULL DEFAULT '',
    idempotency_key TEXT,
    created_at_ms INTEGER NOT NULL,
    accepted_at_ms INTEGER NOT NULL,
    observed_effect TEXT NOT NULL,
    matched INTEGER NOT NULL DEFAULT 0,
    payload BLOB,
    comment TEXT NOT NULL DEFAULT '',
    link TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (partition_key, execution_id, signal_id)
);

CREATE TABLE ff_signal_dedup (
    partition_key INTEGER NOT NULL,
    waitpoint_id BLOB NOT NULL,
    idempotency_key TEXT NOT NULL,
    execution_id BLOB NOT NULL,
    signal_id BLOB NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (partition_key, waitpoint_id, idempotency_key)
);

CREATE TABLE ff_suspend_dedup (
    partition_key INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    execution_id BLOB NOT NULL,
    outcome_json TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (partition_key, idempotency_key)
);

CREATE TABLE ff_waitpoint_hmac (
    kid TEXT NOT NULL,
    rotated_at_ms INTEGER NOT NULL,
    active INTEGER NOT NULL DEFAULT 0,
    expires_at_ms INTEGER,
    secret BLOB NOT NULL,
    PRIMARY KEY (kid)
);

CREATE TABLE ff_signal_event (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    signal_id TEXT NOT NULL,
    waitpoint_id TEXT NOT NULL,
    source_identity TEXT,
    event_type TEXT NOT NULL,
    occurred_at_ms INTEGER NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    namespace TEXT,
    instance_tag TEXT
);

CREATE TABLE ff_outbox_trim (
    channel TEXT NOT NULL,
    event_id INTEGER NOT NULL,
    PRIMARY KEY (channel)
);

CREATE TABLE ff_budget_policy (
    budget_id BLOB NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    namespace TEXT NOT NULL DEFAULT 'default',
    policy_json TEXT NOT NULL,
    scope_type TEXT NOT NULL DEFAULT '',
    scope_id TEXT NOT NULL DEFAULT '',
    enforcement_mode TEXT NOT NULL DEFAULT '',
    breach_count INTEGER NOT NULL DEFAULT 0,
    soft_breach_count INTEGER NOT NULL DEFAULT 0,
    last_breach_at_ms INTEGER,
    last_breach_dim TEXT,
    next_reset_at_ms INTEGER,
    changed_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (budget_id)
);

CREATE TABLE ff_budget_usage (
    budget_id BLOB NOT NULL,
    dimensions_key TEXT NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    current_value INTEGER NOT NULL DEFAULT 0,
    last_reset_at_ms INTEGER,
    updated_at_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (budget_id, dimensions_key)
);

CREATE TABLE ff_budget_usage_dedup (
    budget_id BLOB NOT NULL,
    dedup_key TEXT NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    outcome_json TEXT NOT NULL DEFAULT '{}',
    applied_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (budget_id, dedup_key)
);

CREATE TABLE ff_budget_usage_by_exec (
    partition_key INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    dimensions_key TEXT NOT NULL,
    budget_id BLOB NOT NULL,
    delta_total INTEGER NOT NULL DEFAULT 0,
    updated_at_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, execution_id, dimensions_key, budget_id)
);

CREATE TABLE ff_quota_policy (
    quota_policy_id BLOB NOT NULL,
    partition_key INTEGER NOT NULL DEFAULT 0,
    namespace TEXT NOT NULL DEFAULT 'default',
    requests_per_window_seconds INTEGER NOT NULL,
    max_requests_per_window INTEGER NOT NULL,
    active_concurrency_cap INTEGER NOT NULL,
    active_concurrency INTEGER NOT NULL DEFAULT 0,
    jitter_ms INTEGER NOT NULL DEFAULT 0,
    closed_until_ms INTEGER,
    changed_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (quota_policy_id)
);

CREATE TABLE ff_quota_window (
    quota_policy_id BLOB NOT NULL,
    dimension TEXT NOT NULL,
    admitted_at_ms INTEGER NOT NULL,
    execution_id TEXT NOT NULL,
    PRIMARY KEY (quota_policy_id, dimension, admitted_at_ms, execution_id)
);

CREATE TABLE ff_quota_admitted (
    quota_policy_id BLOB NOT NULL,
    execution_id TEXT NOT NULL,
    admitted_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    PRIMARY KEY (quota_policy_id, execution_id)
);

CREATE TABLE ff_limit_scope (
    scope_type TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    limit_id BLOB NOT NULL,
    attached_at_ms INTEGER NOT NULL,
    namespace TEXT NOT NULL DEFAULT 'default',
    PRIMARY KEY (scope_type, scope_id, kind, limit_id)
);

CREATE TABLE ff_lane_gate (
    lane_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    gate TEXT NOT NULL,
    quota_policy_id BLOB,
    PRIMARY KEY (lane_id, namespace, gate)
);

CREATE TABLE ff_task (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    task_version INTEGER NOT NULL DEFAULT 0,
    quota_policy_id BLOB,
    declared_at_ms INTEGER NOT NULL,
    registered_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    head TEXT NOT NULL,
    declaration TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE ff_schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    cursor_ms INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE ff_bulk_job (
    job_id BLOB NOT NULL,
    namespace TEXT,
    action TEXT NOT NULL,
    args TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'running',
    cursor TEXT,
    matched INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    errors TEXT NOT NULL DEFAULT '[]',
    follow_ups TEXT NOT NULL DEFAULT '[]',
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id)
);

CREATE TABLE ff_api_token (
    token_id BLOB NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    former_digest BLOB,
    former_until_ms INTEGER,
    roles TEXT NOT NULL,
    namespace TEXT,
    lanes TEXT,
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    expires_at_ms INTEGER,
    rotated_at_ms INTEGER,
    revoked_at_ms INTEGER,
    last_used_at_ms INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (token_id)
);

CREATE TABLE ff_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    latest_ms INTEGER NOT NULL
);

CREATE INDEX ff_exec_core_unowned_idx ON ff_exec_core (created_at_ms, execution_id);

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

