"""Indexes, declared once. Every scan and every sweep names one."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.model.event import RESUMABLE
from flowfabric.model.state import ENDED_PHASES, FAILED_OUTCOMES
from flowfabric.plan import Cond
from flowfabric.store.table import Index, IndexOf, index


def _of(table: str, **indexes: IndexOf) -> Iterator[Index]:
    return (declared(name, table) for name, declared in indexes.items())


def _is(column: str, value: str) -> Cond:
    return Cond(column, "=", value)


def _set(column: str) -> Cond:
    return Cond(column, "not null")


def _unset(column: str) -> Cond:
    return Cond(column, "is null")


_RUNNABLE = _is("lifecycle_phase", "runnable")
_READY = (_RUNNABLE, _is("eligibility_state", "eligible_now"))
_LEASED = _is("ownership_state", "leased")
_LOST = _is("ownership_state", "lease_expired_reclaimable")
_UNOWNED = tuple(Cond("ownership_state", "!=", cond.value) for cond in (_LEASED, _LOST))
"""Every execution that is in neither of the indexes `leased` and `lost`."""
_LIMITED = Cond("eligibility_state", "in", ("blocked_by_budget", "blocked_by_quota"))
_ENDED = Cond("lifecycle_phase", "in", ENDED_PHASES)
_NOT_ENDED = Cond("lifecycle_phase", "in", ("submitted", "runnable", "active", "suspended"))
_NOT_FAILED = tuple(Cond("terminal_outcome", "!=", outcome) for outcome in FAILED_OUTCOMES)
_OPEN = _unset("closed_at_ms")
_ATTEMPT = "partition_key, execution_id, attempt_index"

_DECLARED = (
    *_of(
        "ff_exec_core",
        executions=index("execution_id", "partition_key", primary=True),
        unowned=index("created_at_ms, execution_id", "", *_UNOWNED, whole_if_free=True),
        suspended_executions=index(
            "created_at_ms, execution_id", "", _is("lifecycle_phase", "suspended")
        ),
        ready=index(
            "priority desc, created_at_ms, execution_id", "lane_id, namespace, gate", *_READY
        ),
        ready_namespaces=index("namespace", "lane_id", *_READY, served_by="ready"),
        ready_gates=index("gate", "lane_id, namespace", *_READY, served_by="ready"),
        held=index("execution_id", "quota_policy_id", _set("quota_policy_id"), _LEASED),
        reserved=index(
            "reserved_until_ms, execution_id",
            "quota_policy_id",
            _set("quota_policy_id"),
            _set("reserved_until_ms"),
        ),
        blocked_on=index(
            "priority desc, created_at_ms, execution_id", "blocked_on", _LIMITED, _set("blocked_on")
        ),
        delayed=index(
            "delay_until_ms, execution_id",
            "",
            _RUNNABLE,
            _is("eligibility_state", "not_eligible_until_time"),
        ),
        leased=index("lease_expires_at_ms, execution_id", "", _LEASED),
        lost=index("lease_expires_at_ms, execution_id", "", _LOST),
        attempt_timeout=index(
            "attempt_timeout_at_ms, execution_id",
            "",
            _set("attempt_timeout_at_ms"),
            _is("lifecycle_phase", "active"),
        ),
        deadline=index("deadline_at_ms, execution_id", "", _set("deadline_at_ms"), _NOT_ENDED),
        routed=index(
            "last_transition_at, execution_id",
            "",
            _RUNNABLE,
            _is("eligibility_state", "blocked_by_route"),
        ),
        limited=index("last_transition_at, execution_id", "", _RUNNABLE, _LIMITED),
        blocked=index(
            "last_transition_at, execution_id",
            "",
            _RUNNABLE,
            Cond("eligibility_state", "in", ("blocked_by_operator", "blocked_by_lane_state")),
        ),
        ended=index(
            "terminal_at_ms, execution_id",
            "lane_id",
            _ENDED,
            _unset("retain_until_ms"),
            *_NOT_FAILED,
        ),
        failed=index(
            "terminal_at_ms, execution_id",
            "lane_id",
            _ENDED,
            _unset("retain_until_ms"),
            Cond("terminal_outcome", "in", FAILED_OUTCOMES),
        ),
        retained=index("retain_until_ms, execution_id", "lane_id", _ENDED, _set("retain_until_ms")),
    ),
    *_of(
        "ff_attempt",
        attempts=index("attempt_index", "partition_key, execution_id", primary=True),
        last_attempt=index("attempt_index desc", "partition_key, execution_id", primary=True),
    ),
    *_of(
        "ff_claim_grant",
        grants=index("expires_at_ms, execution_id"),
    ),
    *_of(
        "ff_lane_registry",
        lanes=index("lane_id", primary=True),
    ),
    *_of(
        "ff_idempotency",
        idempotency=index("expires_at_ms, namespace, idempotency_key", "", _set("expires_at_ms")),
    ),
    *_of(
        "ff_worker_registry",
        workers=index("worker_instance_id", "namespace", primary=True),
        all_workers=index("namespace, worker_instance_id", primary=True),
        worker_expiry=index("expires_at_ms, namespace, worker_instance_id"),
    ),
    *_of(
        "ff_worker_registry_event",
        worker_events=index("event_at_ms, event_id"),
    ),
    *_of(
        "ff_exec_core",
        members=index("execution_id", "partition_key, flow_id", _set("flow_id")),
        dependent=index(
            "last_transition_at, execution_id",
            "",
            _RUNNABLE,
            _is("eligibility_state", "blocked_by_dependencies"),
        ),
    ),
    *_of(
        "ff_flow_core",
        flows=index("flow_id", "partition_key", primary=True),
        unsettled_flows=index("created_at_ms, flow_id", "", _unset("settled_at_ms")),
        children_of=index(
            "flow_id", "parent_partition, parent_execution_id", _set("parent_execution_id")
        ),
    ),
    *_of(
        "ff_edge",
        edges=index("edge_id", "partition_key, flow_id", primary=True),
        edges_out=index("edge_id", "partition_key, upstream_eid"),
        edges_in=index("edge_id", "partition_key, downstream_eid"),
    ),
    *_of(
        "ff_edge_group",
        groups_of_flow=index("downstream_eid", "partition_key, flow_id", primary=True),
    ),
    *_of(
        "ff_pending_cancel_groups",
        cancel_groups=index("enqueued_at_ms, flow_id, downstream_eid"),
    ),
    *_of(
        "ff_cancel_backlog",
        cancel_backlog=index("grace_until_ms, flow_id", "", _set("grace_until_ms")),
        cancel_backlog_since=index("requested_at_ms, flow_id", "", _unset("grace_until_ms")),
    ),
    *_of(
        "ff_cancel_backlog_member",
        cancel_backlog_members=index("execution_id", "partition_key, flow_id", primary=True),
    ),
    *_of(
        "ff_completion_event",
        undispatched=index(
            "committed_at_ms, event_id",
            "",
            _unset("dispatched_at_ms"),
            _set("flow_id"),
            Cond("outcome", "!=", RESUMABLE),
        ),
    ),
    *_of(
        "ff_suspension_current",
        suspended=index("suspended_at_ms, execution_id", "partition_key", _OPEN),
        suspension_timeout=index("timeout_at_ms, execution_id", "", _OPEN, _set("timeout_at_ms")),
    ),
    *_of(
        "ff_waitpoint_pending",
        waitpoints_of=index("waitpoint_id", "partition_key, execution_id"),
        waitpoint_expiry=index(
            "expires_at_ms, waitpoint_id", "", _is("state", "pending"), _set("expires_at_ms")
        ),
        open_waitpoints=index(
            "created_at_ms, waitpoint_id", "", Cond("state", "in", ("pending", "active"))
        ),
    ),
    *_of(
        "ff_signal",
        signals_of=index("accepted_at_ms, signal_id", "partition_key, execution_id"),
    ),
    *_of(
        "ff_signal_dedup",
        signal_dedup_expiry=index("expires_at_ms, waitpoint_id, idempotency_key"),
    ),
    *_of(
        "ff_suspend_dedup",
        suspend_dedup_expiry=index("expires_at_ms, idempotency_key"),
    ),
    *_of(
        "ff_signal_dedup",
        signal_dedup_of=index("waitpoint_id, idempotency_key", "partition_key, execution_id"),
    ),
    *_of(
        "ff_suspend_dedup",
        suspend_dedup_of=index("idempotency_key", "partition_key, execution_id"),
    ),
    *_of(
        "ff_waitpoint_hmac",
        hmac_keys=index("kid", primary=True),
    ),
    *_of(
        "ff_budget_policy",
        budgets=index("budget_id", primary=True),
        budget_resets=index("next_reset_at_ms, budget_id", "", _set("next_reset_at_ms")),
    ),
    *_of(
        "ff_budget_usage",
        usage_of=index("dimensions_key", "budget_id", primary=True),
    ),
    *_of(
        "ff_budget_usage_dedup",
        usage_dedup_expiry=index("expires_at_ms, budget_id, dedup_key"),
    ),
    *_of(
        "ff_budget_usage_by_exec",
        ledger_of=index("dimensions_key, budget_id", "partition_key, execution_id", primary=True),
        ledger_of_budget=index("partition_key, execution_id, dimensions_key", "budget_id"),
    ),
    *_of(
        "ff_quota_policy",
        quotas=index("quota_policy_id", primary=True),
    ),
    *_of(
        "ff_quota_window",
        quota_window=index(
            "admitted_at_ms, execution_id", "quota_policy_id, dimension", primary=True
        ),
        quota_entries=index(
            "dimension, admitted_at_ms, execution_id", "quota_policy_id", primary=True
        ),
    ),
    *_of(
        "ff_quota_admitted",
        quota_admitted=index("execution_id", "quota_policy_id", primary=True),
    ),
    *_of(
        "ff_limit_scope",
        limit_scopes=index("scope_type, scope_id, kind, limit_id", primary=True),
    ),
    *_of(
        "ff_lane_gate",
        lane_gates=index("gate", "lane_id, namespace", primary=True),
        all_gates=index("lane_id, namespace, gate", primary=True),
        gates_of_lane=index("namespace, gate", "lane_id", primary=True),
    ),
    *_of(
        "ff_schedule",
        schedules=index("name", "namespace", primary=True),
        all_schedules=index("namespace, name", primary=True),
    ),
    *_of(
        "ff_task",
        tasks=index("name", "namespace", primary=True),
        all_tasks=index("namespace, name", primary=True),
    ),
    *_of(
        "ff_bulk_job",
        bulk_jobs=index("created_at_ms, job_id"),
        bulk_running=index("updated_at_ms, job_id", "", _is("state", "running")),
        bulk_ended=index("ended_at_ms, job_id", "", _set("ended_at_ms")),
    ),
    *_of(
        "ff_api_token",
        api_tokens=index("token_id", primary=True),
        live_tokens=index("token_id", "", _unset("revoked_at_ms")),
        revoked_tokens=index("revoked_at_ms, token_id", "", _set("revoked_at_ms")),
    ),
    *_of(
        "ff_step",
        steps=index("position", "partition_key, execution_id", primary=True),
    ),
    *_of(
        "ff_stream_frame",
        frames=index("ts_ms, seq", _ATTEMPT, primary=True),
        kept_frames=index("ts_ms, seq", _ATTEMPT, Cond("mode", "!=", "best_effort"), primary=True),
        durable_frames=index("ts_ms, seq", _ATTEMPT, _is("mode", "durable"), primary=True),
        passing_frames=index("mode_number", f"{_ATTEMPT}, mode", Cond("mode", "!=", "durable")),
        frames_by_caller=index("client_seq", _ATTEMPT, _set("client_seq")),
        expiring_frames=index(
            "expires_at_ms, execution_id, attempt_index, ts_ms, seq", "", _set("expires_at_ms")
        ),
    ),
    *_of(
        "ff_signal_event",
        signal_events_of=index("event_id", "execution_id"),
    ),
    *_of(
        "ff_lease_event",
        lease_events_of=index("event_id", "execution_id"),
    ),
    *_of(
        "ff_completion_event",
        completion_events_of=index("event_id", "execution_id"),
    ),
    *_of(
        "ff_operator_event",
        operator_events_of=index("event_id", "execution_id"),
    ),
)
INDEXES: dict[str, Index] = {index.name: index for index in _DECLARED}
