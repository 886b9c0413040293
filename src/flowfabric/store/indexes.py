"""Indexes, declared once. Every scan and every sweep names one."""

from __future__ import annotations

from flowfabric.model.state import ENDED_PHASES, FAILED_OUTCOMES
from flowfabric.plan import Cond
from flowfabric.store.table import Index, index


def _is(column: str, value: str) -> Cond:
    return Cond(column, "=", value)


def _set(column: str) -> Cond:
    return Cond(column, "not null")


def _unset(column: str) -> Cond:
    return Cond(column, "is null")


_RUNNABLE = _is("lifecycle_phase", "runnable")
_READY = (_RUNNABLE, _is("eligibility_state", "eligible_now"))
_LEASED = _is("ownership_state", "leased")
_LIMITED = Cond("eligibility_state", "in", ("blocked_by_budget", "blocked_by_quota"))
_ENDED = Cond("lifecycle_phase", "in", ENDED_PHASES)
_OPEN = _unset("closed_at_ms")
_ATTEMPT = "partition_key, execution_id, attempt_index"

INDEXES: dict[str, Index] = {
    i.name: i
    for i in (
        index("executions", "ff_exec_core", "execution_id", "partition_key", primary=True),
        index(
            "ready",
            "ff_exec_core",
            "priority desc, created_at_ms, execution_id",
            "lane_id, namespace, gate",
            where=_READY,
        ),
        index(
            "ready_namespaces",
            "ff_exec_core",
            "namespace",
            "lane_id",
            where=_READY,
            served_by="ready",
        ),
        index(
            "ready_gates",
            "ff_exec_core",
            "gate",
            "lane_id, namespace",
            where=_READY,
            served_by="ready",
        ),
        index(
            "held",
            "ff_exec_core",
            "execution_id",
            "quota_policy_id",
            where=(_set("quota_policy_id"), _LEASED),
        ),
        index(
            "reserved",
            "ff_exec_core",
            "reserved_until_ms, execution_id",
            "quota_policy_id",
            where=(_set("quota_policy_id"), _set("reserved_until_ms")),
        ),
        index(
            "blocked_on",
            "ff_exec_core",
            "priority desc, created_at_ms, execution_id",
            "blocked_on",
            where=(_LIMITED, _set("blocked_on")),
        ),
        index(
            "delayed",
            "ff_exec_core",
            "delay_until_ms, execution_id",
            where=(_RUNNABLE, _is("eligibility_state", "not_eligible_until_time")),
        ),
        index("leased", "ff_exec_core", "lease_expires_at_ms, execution_id", where=(_LEASED,)),
        index(
            "lost",
            "ff_exec_core",
            "lease_expires_at_ms, execution_id",
            where=(_is("ownership_state", "lease_expired_reclaimable"),),
        ),
        index(
            "attempt_timeout",
            "ff_exec_core",
            "attempt_timeout_at_ms, execution_id",
            where=(_set("attempt_timeout_at_ms"), _is("lifecycle_phase", "active")),
        ),
        index(
            "deadline",
            "ff_exec_core",
            "deadline_at_ms, execution_id",
            where=(
                _set("deadline_at_ms"),
                Cond("lifecycle_phase", "in", ("submitted", "runnable", "active", "suspended")),
            ),
        ),
        index(
            "routed",
            "ff_exec_core",
            "last_transition_at, execution_id",
            where=(_RUNNABLE, _is("eligibility_state", "blocked_by_route")),
        ),
        index(
            "limited",
            "ff_exec_core",
            "last_transition_at, execution_id",
            where=(_RUNNABLE, _LIMITED),
        ),
        index(
            "ended",
            "ff_exec_core",
            "terminal_at_ms, execution_id",
            "lane_id",
            where=(
                _ENDED,
                _unset("retain_until_ms"),
                *(Cond("terminal_outcome", "!=", o) for o in FAILED_OUTCOMES),
            ),
        ),
        index(
            "failed",
            "ff_exec_core",
            "terminal_at_ms, execution_id",
            "lane_id",
            where=(
                _ENDED,
                _unset("retain_until_ms"),
                Cond("terminal_outcome", "in", FAILED_OUTCOMES),
            ),
        ),
        index(
            "retained",
            "ff_exec_core",
            "retain_until_ms, execution_id",
            "lane_id",
            where=(_ENDED, _set("retain_until_ms")),
        ),
        index(
            "attempts", "ff_attempt", "attempt_index", "partition_key, execution_id", primary=True
        ),
        index(
            "last_attempt",
            "ff_attempt",
            "attempt_index desc",
            "partition_key, execution_id",
            primary=True,
        ),
        index("grants", "ff_claim_grant", "expires_at_ms, execution_id"),
        index("lanes", "ff_lane_registry", "lane_id", primary=True),
        index(
            "idempotency",
            "ff_idempotency",
            "expires_at_ms, namespace, idempotency_key",
            where=(_set("expires_at_ms"),),
        ),
        index("workers", "ff_worker_registry", "worker_instance_id", "namespace", primary=True),
        index("all_workers", "ff_worker_registry", "namespace, worker_instance_id", primary=True),
        index(
            "worker_expiry", "ff_worker_registry", "expires_at_ms, namespace, worker_instance_id"
        ),
        index("worker_events", "ff_worker_registry_event", "event_at_ms, event_id"),
        index(
            "members",
            "ff_exec_core",
            "execution_id",
            "partition_key, flow_id",
            where=(_set("flow_id"),),
        ),
        index(
            "dependent",
            "ff_exec_core",
            "last_transition_at, execution_id",
            where=(_RUNNABLE, _is("eligibility_state", "blocked_by_dependencies")),
        ),
        index("flows", "ff_flow_core", "flow_id", "partition_key", primary=True),
        index(
            "unsettled_flows",
            "ff_flow_core",
            "created_at_ms, flow_id",
            where=(_unset("settled_at_ms"),),
        ),
        index(
            "children_of",
            "ff_flow_core",
            "flow_id",
            "parent_partition, parent_execution_id",
            where=(_set("parent_execution_id"),),
        ),
        index("edges", "ff_edge", "edge_id", "partition_key, flow_id", primary=True),
        index("edges_out", "ff_edge", "edge_id", "partition_key, upstream_eid"),
        index("edges_in", "ff_edge", "edge_id", "partition_key, downstream_eid"),
        index(
            "groups_of_flow",
            "ff_edge_group",
            "downstream_eid",
            "partition_key, flow_id",
            primary=True,
        ),
        index(
            "cancel_groups", "ff_pending_cancel_groups", "enqueued_at_ms, flow_id, downstream_eid"
        ),
        index(
            "cancel_backlog",
            "ff_cancel_backlog",
            "grace_until_ms, flow_id",
            where=(_set("grace_until_ms"),),
        ),
        index(
            "cancel_backlog_since",
            "ff_cancel_backlog",
            "requested_at_ms, flow_id",
            where=(_unset("grace_until_ms"),),
        ),
        index(
            "cancel_backlog_members",
            "ff_cancel_backlog_member",
            "execution_id",
            "partition_key, flow_id",
            primary=True,
        ),
        index(
            "undispatched",
            "ff_completion_event",
            "committed_at_ms, event_id",
            where=(_unset("dispatched_at_ms"), _set("flow_id"), Cond("outcome", "!=", "resumable")),
        ),
        index(
            "suspended",
            "ff_suspension_current",
            "suspended_at_ms, execution_id",
            "partition_key",
            where=(_OPEN,),
        ),
        index(
            "suspension_timeout",
            "ff_suspension_current",
            "timeout_at_ms, execution_id",
            where=(_OPEN, _set("timeout_at_ms")),
        ),
        index(
            "waitpoints_of", "ff_waitpoint_pending", "waitpoint_id", "partition_key, execution_id"
        ),
        index(
            "waitpoint_expiry",
            "ff_waitpoint_pending",
            "expires_at_ms, waitpoint_id",
            where=(_is("state", "pending"), _set("expires_at_ms")),
        ),
        index(
            "open_waitpoints",
            "ff_waitpoint_pending",
            "created_at_ms, waitpoint_id",
            where=(Cond("state", "in", ("pending", "active")),),
        ),
        index(
            "signals_of", "ff_signal", "accepted_at_ms, signal_id", "partition_key, execution_id"
        ),
        index(
            "signal_dedup_expiry", "ff_signal_dedup", "expires_at_ms, waitpoint_id, idempotency_key"
        ),
        index("suspend_dedup_expiry", "ff_suspend_dedup", "expires_at_ms, idempotency_key"),
        index(
            "signal_dedup_of",
            "ff_signal_dedup",
            "waitpoint_id, idempotency_key",
            "partition_key, execution_id",
        ),
        index(
            "suspend_dedup_of", "ff_suspend_dedup", "idempotency_key", "partition_key, execution_id"
        ),
        index("hmac_keys", "ff_waitpoint_hmac", "kid", primary=True),
        index("budgets", "ff_budget_policy", "budget_id", primary=True),
        index(
            "budget_resets",
            "ff_budget_policy",
            "next_reset_at_ms, budget_id",
            where=(_set("next_reset_at_ms"),),
        ),
        index("usage_of", "ff_budget_usage", "dimensions_key", "budget_id", primary=True),
        index("usage_dedup_expiry", "ff_budget_usage_dedup", "expires_at_ms, budget_id, dedup_key"),
        index(
            "ledger_of",
            "ff_budget_usage_by_exec",
            "dimensions_key, budget_id",
            "partition_key, execution_id",
            primary=True,
        ),
        index(
            "ledger_of_budget",
            "ff_budget_usage_by_exec",
            "partition_key, execution_id, dimensions_key",
            "budget_id",
        ),
        index("quotas", "ff_quota_policy", "quota_policy_id", primary=True),
        index(
            "quota_window",
            "ff_quota_window",
            "admitted_at_ms, execution_id",
            "quota_policy_id, dimension",
            primary=True,
        ),
        index(
            "quota_entries",
            "ff_quota_window",
            "dimension, admitted_at_ms, execution_id",
            "quota_policy_id",
            primary=True,
        ),
        index(
            "quota_admitted", "ff_quota_admitted", "execution_id", "quota_policy_id", primary=True
        ),
        index(
            "limit_scopes", "ff_limit_scope", "scope_type, scope_id, kind, limit_id", primary=True
        ),
        index("lane_gates", "ff_lane_gate", "gate", "lane_id, namespace", primary=True),
        index("gates_of_lane", "ff_lane_gate", "namespace, gate", "lane_id", primary=True),
        index("schedules", "ff_schedule", "name", "namespace", primary=True),
        index("steps", "ff_step", "position", "partition_key, execution_id", primary=True),
        index("frames", "ff_stream_frame", "ts_ms, seq", _ATTEMPT, primary=True),
        index(
            "kept_frames",
            "ff_stream_frame",
            "ts_ms, seq",
            _ATTEMPT,
            where=(Cond("mode", "!=", "best_effort"),),
            primary=True,
        ),
        index(
            "durable_frames",
            "ff_stream_frame",
            "ts_ms, seq",
            _ATTEMPT,
            where=(_is("mode", "durable"),),
            primary=True,
        ),
        index(
            "passing_frames",
            "ff_stream_frame",
            "mode_number",
            f"{_ATTEMPT}, mode",
            where=(Cond("mode", "!=", "durable"),),
        ),
        index(
            "frames_by_caller",
            "ff_stream_frame",
            "client_seq",
            _ATTEMPT,
            where=(_set("client_seq"),),
        ),
        index(
            "expiring_frames",
            "ff_stream_frame",
            "expires_at_ms, execution_id, attempt_index, ts_ms, seq",
            where=(_set("expires_at_ms"),),
        ),
        index("signal_events_of", "ff_signal_event", "event_id", "execution_id"),
        index("lease_events_of", "ff_lease_event", "event_id", "execution_id"),
        index("completion_events_of", "ff_completion_event", "event_id", "execution_id"),
        index("operator_events_of", "ff_operator_event", "event_id", "execution_id"),
    )
}
