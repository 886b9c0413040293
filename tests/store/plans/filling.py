"""Databases with a long queue, in every state statistics can be in."""

from __future__ import annotations

import psycopg

from flowfabric.store.postgres.migrate import as_script
from flowfabric.store.schema import TABLES
from tests.postgres import database, server_url

QUEUED = 100_000
OTHERS = 10_000
LANE = "lane"
BIG = (
    "ff_exec_core",
    "ff_attempt",
    "ff_claim_grant",
    "ff_idempotency",
    "ff_lease_event",
    "ff_completion_event",
    "ff_operator_event",
    "ff_worker_registry_event",
    "ff_flow_core",
    "ff_edge",
    "ff_edge_group",
    "ff_pending_cancel_groups",
    "ff_cancel_backlog",
    "ff_cancel_backlog_member",
    "ff_flow_summary",
    "ff_suspension_current",
    "ff_waitpoint_pending",
    "ff_signal",
    "ff_signal_dedup",
    "ff_suspend_dedup",
    "ff_signal_event",
    "ff_budget_policy",
    "ff_budget_usage",
    "ff_budget_usage_dedup",
    "ff_budget_usage_by_exec",
    "ff_quota_policy",
    "ff_quota_window",
    "ff_quota_admitted",
    "ff_limit_scope",
    "ff_lane_gate",
    "ff_schedule",
    "ff_task",
    "ff_api_token",
    "ff_step",
    "ff_stream_meta",
    "ff_stream_frame",
    "ff_stream_summary",
)
STATES = ("never analyzed", "analyzed", "analyzed while empty")

_ID = "lpad(to_hex(i), 32, '0')::uuid"
_OTHER = f"lpad(to_hex(i + {QUEUED}), 32, '0')::uuid"
_SOME = f"FROM generate_series(1, {OTHERS}) AS i"
_FILL = f"""
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, namespace, lifecycle_phase,
    eligibility_state, attempt_state,
    public_state, priority, created_at_ms, deadline_at_ms)
SELECT i % 4, {_ID}, '{LANE}', CASE i % 2 WHEN 0 THEN 'another' ELSE 'default' END, 'runnable',
    'eligible_now',
    'pending_first_attempt', 'waiting', i % 5, i, CASE WHEN i % 10 = 0 THEN i END
FROM generate_series(1, QUEUED) AS i;

INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase,
    eligibility_state, ownership_state,
    attempt_state, public_state, created_at_ms, delay_until_ms, lease_expires_at_ms,
        attempt_timeout_at_ms, terminal_at_ms,
    retain_until_ms, terminal_outcome, lease_epoch, last_transition_at, quota_policy_id,
        reserved_until_ms, blocked_on)
SELECT i % 4, {_OTHER}, '{LANE}',
    CASE i % 5 WHEN 0 THEN 'active' WHEN 1 THEN 'active' WHEN 2 THEN 'terminal' ELSE 'runnable' END,
    CASE i % 5 WHEN 3 THEN 'not_eligible_until_time'
        WHEN 4 THEN CASE WHEN i % 10 = 4 THEN 'blocked_by_budget' ELSE 'blocked_by_route' END
        ELSE 'not_applicable' END,
    CASE i % 5 WHEN 0 THEN 'leased' WHEN 1 THEN 'lease_expired_reclaimable' ELSE 'unowned' END,
        'x', 'x', i, i, i, i, i,
    CASE WHEN i % 10 < 5 THEN i END, CASE WHEN i % 20 = 7 THEN 'failed'
        WHEN i % 5 = 2 THEN 'success' ELSE 'none' END,
    1, i, CASE WHEN i % 2 = 0 THEN {_ID} END, i, 'b-' || i {_SOME};

INSERT INTO ff_attempt (partition_key, execution_id, attempt_index)
SELECT i % 4, {_OTHER}, 0 {_SOME};
INSERT INTO ff_claim_grant (partition_key, execution_id, grant_id, kind, worker_id,
    worker_instance_id, lane_id, grant_ttl_ms,
    issued_at_ms, expires_at_ms)
SELECT i % 4, {_ID}, 'x', 'claim', 'w', 'w', '{LANE}', 1, i, i {_SOME};
INSERT INTO ff_idempotency SELECT 'ns', 'key-' || i, i % 4, {_ID}, i {_SOME};
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms)
SELECT {_ID}, 'x', i {_SOME};
INSERT INTO ff_completion_event (execution_id, outcome, occurred_at_ms)
SELECT {_ID}, 'x', i {_SOME};
INSERT INTO ff_operator_event (execution_id, event_type, occurred_at_ms)
SELECT {_ID}, 'x', i {_SOME};
INSERT INTO ff_worker_registry_event (namespace, worker_instance_id, event_kind,
    event_at_ms) SELECT 'ns', 'w', 'x', i {_SOME};
INSERT INTO ff_flow_core (partition_key, flow_id, created_at_ms) SELECT i % 4, {_ID}, i {_SOME};
INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid)
SELECT i % 4, {_ID}, {_OTHER}, {_ID}, {_OTHER} {_SOME};
INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid)
SELECT i % 4, {_ID}, {_OTHER} {_SOME};
INSERT INTO ff_pending_cancel_groups SELECT i % 4, {_ID}, {_OTHER}, i {_SOME};
INSERT INTO ff_cancel_backlog (partition_key, flow_id, requested_at_ms, grace_until_ms,
    cancellation_policy)
SELECT i % 4, {_ID}, i, CASE WHEN i % 10 > 0 THEN i END, 'x' {_SOME};
INSERT INTO ff_cancel_backlog_member SELECT i % 4, {_ID}, 'e-' || i {_SOME};
INSERT INTO ff_flow_summary (partition_key, flow_id, public_flow_state, last_summary_update_at)
SELECT i % 4, {_ID}, 'x', i {_SOME};
INSERT INTO ff_suspension_current
    (partition_key, execution_id, suspension_id, suspended_at_ms, timeout_at_ms, reason_code,
        condition)
SELECT i % 4, {_ID}, {_ID}, i, i, 'x', '{{}}' {_SOME};
INSERT INTO ff_waitpoint_pending
    (partition_key, waitpoint_id, execution_id, token_kid, token_digest, created_at_ms,
        expires_at_ms)
SELECT i % 4, {_OTHER}, {_ID}, 'k', 't', i, i {_SOME};
INSERT INTO ff_signal (partition_key, execution_id, signal_id, waitpoint_id, created_at_ms,
    accepted_at_ms, observed_effect)
SELECT i % 4, {_ID}, {_OTHER}, {_OTHER}, i, i, 'x' {_SOME};
INSERT INTO ff_signal_dedup SELECT i % 4, {_OTHER}, 'k-' || i, {_ID}, {_OTHER}, i {_SOME};
INSERT INTO ff_suspend_dedup SELECT i % 4, 'k-' || i, {_ID}, 'x', i, i {_SOME};
INSERT INTO ff_signal_event (execution_id, signal_id, waitpoint_id, event_type, occurred_at_ms)
SELECT {_ID}, {_ID}, {_OTHER}, 'x', i {_SOME};
INSERT INTO ff_budget_policy (budget_id, policy_json, next_reset_at_ms, created_at_ms,
    updated_at_ms)
SELECT {_ID}, '{{}}', CASE WHEN i % 10 > 0 THEN i END, i, i {_SOME};
INSERT INTO ff_budget_usage (budget_id, dimensions_key) SELECT {_ID}, 'tokens' {_SOME};
INSERT INTO ff_budget_usage_dedup (budget_id, dedup_key, applied_at_ms, expires_at_ms)
    SELECT {_ID}, 'k-' || i, i, i {_SOME};
INSERT INTO ff_budget_usage_by_exec (partition_key, execution_id, budget_id, dimensions_key)
SELECT i % 4, {_ID}, {_OTHER}, 'tokens' {_SOME};
INSERT INTO ff_quota_policy (quota_policy_id, requests_per_window_seconds,
    max_requests_per_window, active_concurrency_cap,
    created_at_ms, updated_at_ms) SELECT {_ID}, 1, 1, 1, i, i {_SOME};
INSERT INTO ff_quota_window SELECT {_ID}, 'default', i, {_OTHER} {_SOME};
INSERT INTO ff_quota_admitted (quota_policy_id, execution_id, admitted_at_ms)
SELECT {_ID}, 'e-' || i, i {_SOME};
INSERT INTO ff_limit_scope SELECT 'tag', 't-' || i, 'budget', {_ID}, i {_SOME};
INSERT INTO ff_lane_gate (lane_id, namespace, gate) SELECT '{LANE}-' || i, 'default', 'g' {_SOME};
INSERT INTO ff_schedule (namespace, name, cursor_ms) SELECT 'ns-' || i % 4, 's-' || i, i {_SOME};
INSERT INTO ff_task (namespace, name, fingerprint, declared_at_ms, registered_at_ms, changed_at_ms,
    last_seen_ms, head, declaration)
SELECT 'ns-' || i % 4, 't-' || i, '', i, i, i, i, '', '' {_SOME};
INSERT INTO ff_api_token (token_id, name, digest, roles, created_at_ms, revoked_at_ms)
SELECT {_ID}, 't-' || i, '\\x00', '[]', i, CASE WHEN i % 2 = 0 THEN i END {_SOME};
INSERT INTO ff_step (partition_key, execution_id, position, name, recorded_at_ms)
SELECT i % 4, {_ID}, 0, 'x', i {_SOME};
INSERT INTO ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
    SELECT i % 4, {_ID}, 0, i {_SOME};
INSERT INTO ff_stream_frame
    (partition_key, execution_id, attempt_index, ts_ms, seq, mode, number, mode_number,
        client_seq, expires_at_ms, created_at_ms)
SELECT i % 4, {_ID}, 0, i, 0, CASE i % 2 WHEN 0 THEN 'durable' ELSE 'best_effort' END, i, i, i,
    CASE i % 2 WHEN 1 THEN i END, i
{_SOME};
INSERT INTO ff_stream_summary (partition_key, execution_id, attempt_index, last_updated_ms,
    first_applied_ms)
SELECT i % 4, {_ID}, 0, i, i {_SOME};
INSERT INTO ff_lane_registry (lane_id, registered_at_ms, registered_by) VALUES ('{LANE}', 0, 'x');
"""


def empty(name: str, *, analyzed: bool) -> str:
    """The url of a new database without rows and without autovacuum."""
    url = database(f"plans_{name.replace(' ', '_')}")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(as_script())
        for table in TABLES:
            db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if analyzed:
            db.execute("ANALYZE")
    return url


def fill(url: str, queued: int = QUEUED) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(_FILL.replace("QUEUED", str(queued)))


def filled(state: str) -> str:
    """The url of a new database in this state."""
    url = empty(state, analyzed=state == "analyzed while empty")
    fill(url)
    if state == "analyzed":
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ANALYZE")
    return url


def drop(url: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(f'DROP DATABASE "{url.rpartition("/")[2]}" WITH (FORCE)')
