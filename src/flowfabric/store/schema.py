"""Tables and indexes, declared once. SQL stores render them, the in-memory store interprets them.

A column reads `name kind`, with `!` for a key column, `?` for one that may be null and `=x` for its default.
Kinds: int, text, uuid, uuidtext (a uuid kept as text), bytes, json, list (of text), auto (an event's number).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Cond, Form, Insert


class Column(Struct, frozen=True):
    name: str
    kind: str
    null: bool
    default: Any


class Child(Struct, frozen=True):
    """Rows of another table that go when their owner goes: its key columns hold the owner's."""

    table: str


class Table(Struct, frozen=True):
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    names: tuple[str, ...]
    kinds: dict[str, str]
    children: tuple[Child, ...] = ()
    outbox: bool = False


class Index(Struct, frozen=True):
    """Rows for which `where` holds, in `order` within each `group`. `primary` means the table's own key serves it."""

    name: str
    table: str
    order: tuple[str, ...]
    group: tuple[str, ...] = ()
    where: tuple[Cond, ...] = ()
    descending: tuple[str, ...] = ()
    primary: bool = False


def _table(name: str, columns: str, children: tuple[str, ...] = (), *, outbox: bool = False) -> Table:
    parsed, key = [], []
    for line in columns.replace("\n", " ").split(","):
        column, _, rest = line.strip().partition(" ")
        if not column:
            continue
        kind, _, default = rest.partition("=")
        if kind.endswith("!"):
            key.append(column)
        plain = kind.rstrip("!?")
        value: Any = None
        if default:
            value = int(default) if plain == "int" else default.strip("'")
        parsed.append(Column(column, plain, kind.endswith("?"), value))
    kinds = {column.name: column.kind for column in parsed}
    return Table(name, tuple(parsed), tuple(key), tuple(kinds), kinds, tuple(Child(c) for c in children), outbox)


_EVENT = "partition_key int=0, namespace text?, instance_tag text?"

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table(
            "ff_exec_core",
            """partition_key int!, execution_id uuid!, flow_id uuid?, lane_id text, namespace text='default', instance_tag text?,
            execution_kind text='', creator_identity text='', idempotency_key text?, payload_encoding text?,
            required_capabilities list='[]', budget_ids list='[]', quota_policy_id uuid?, gate text='', blocked_on text?,
            lifecycle_phase text, ownership_state text='unowned', eligibility_state text, blocking_reason text='none',
            blocking_detail text='', terminal_outcome text='none', attempt_state text, public_state text,
            priority int=0, created_at_ms int, started_at_ms int?, terminal_at_ms int?,
            last_transition_at int=0, last_mutation_at int=0, delay_until_ms int?, deadline_at_ms int?, deadline_origin text?,
            attempt_index int=0, total_attempt_count int=0, retry_count int=0, replay_count int=0, lease_reclaim_count int=0,
            max_reclaim_count int?, attempt_timeout_ms int?, attempt_timeout_at_ms int?, attempt_timeout_remaining_ms int?,
            retention_ttl_ms int?, retain_until_ms int?, current_attempt_id uuid?, current_lease_id uuid?,
            lease_epoch int=0, version int=0, current_worker_id text?, current_worker_instance_id text?,
            lease_acquired_at int?, lease_expires_at_ms int?, lease_last_renewed_at int?, lease_renewal_deadline int?,
            lease_expired_at int?, expired_epoch int?, interrupt_cause text?, closing_epoch int?, closing_attempt_index int?,
            pending_retry_reason text?, pending_replay_reason text?, pending_replay_requested_by text?,
            pending_previous_attempt_index int?, pending_attempt_policy json?, reserved_for text?, reserved_until_ms int?,
            failure_reason text?, last_failure_message text?, cancellation_reason text?, cancelled_by text?,
            progress_pct int?, progress_message text?, progress_updated_at int?, last_capability_mismatch_at int?,
            current_suspension_id uuid?, current_waitpoint_id uuid?, last_hmac_validation_failed_at int?, result_encoding text?,
            tags json='{}', raw_fields json='{}', policy json?, payload bytes?, result bytes?""",
            (
                "ff_attempt",
                "ff_claim_grant",
                "ff_suspension_current",
                "ff_waitpoint_pending",
                "ff_signal",
                "ff_signal_dedup",
                "ff_suspend_dedup",
                "ff_budget_usage_by_exec",
                "ff_lease_event",
                "ff_completion_event",
                "ff_operator_event",
                "ff_signal_event",
            ),
        ),
        _table(
            "ff_attempt",
            """partition_key int!, execution_id uuid!, attempt_index int!, attempt_id uuid?, attempt_type text='initial',
            attempt_state text='created', worker_id text?, worker_instance_id text?, lease_id uuid?, lease_epoch int=0,
            lease_expires_at_ms int?, created_at_ms int=0, started_at_ms int?, resumed_at_ms int?, suspended_at_ms int?,
            suspension_id text?, terminal_at_ms int?, outcome text?, failure_reason text?, failure_category text?,
            retry_reason text?, replay_reason text?, replay_requested_by text?, reclaim_reason text?,
            previous_attempt_index int?, replayed_from_attempt_index int?, attempt_timeout_at_ms int?,
            attempt_timeout_remaining_ms int?, usage json='{"last_usage_report_seq":0}', policy json?, raw_fields json='{}'""",
        ),
        _table(
            "ff_claim_grant",
            """partition_key int!, execution_id uuid!, grant_id text, kind text, worker_id text, worker_instance_id text,
            lane_id text, capability_hash text?, worker_capabilities list='[]', route_snapshot_json json?,
            admission_summary text?, grant_ttl_ms int, issued_at_ms int, expires_at_ms int""",
        ),
        _table(
            "ff_lane_registry",
            "lane_id text!, registered_at_ms int, registered_by text, state text='active', updated_at_ms int=0",
        ),
        _table(
            "ff_idempotency",
            "namespace text!, idempotency_key text!, partition_key int, execution_id uuid, expires_at_ms int",
        ),
        _table(
            "ff_worker_registry",
            """namespace text!, worker_instance_id text!, worker_id text, lanes list='[]', capabilities list='[]',
            last_heartbeat_ms int, liveness_ttl_ms int, expires_at_ms int, registered_at_ms int, version int=0""",
        ),
        _table(
            "ff_worker_registry_event",
            "event_id auto!, namespace text, worker_instance_id text, event_kind text, event_at_ms int, reason text?",
        ),
        _table(
            "ff_flow_core",
            """partition_key int!, flow_id uuid!, graph_revision int=0, public_flow_state text='open', created_at_ms int,
            terminal_at_ms int?, version int=0, settled_at_ms int?, raw_fields json='{}'""",
        ),
        _table(
            "ff_edge",
            """partition_key int!, flow_id uuid!, edge_id uuid!, upstream_eid uuid, downstream_eid uuid,
            edge_state text='pending', dep_state text?, applied_at_ms int?, last_resolved_at_ms int?, reset_at_ms int?,
            policy json='{}', policy_version int=0""",
        ),
        _table(
            "ff_edge_group",
            """partition_key int!, flow_id uuid!, downstream_eid uuid!, policy json='{}', k_target int=0, success_count int=0,
            fail_count int=0, skip_count int=0, running_count int=0, group_state text='pending', satisfied_at_ms int?,
            cancel_siblings_pending_flag int=0, cancel_siblings_pending_members json='[]', cancel_siblings_reason text?,
            version int=0""",
        ),
        _table(
            "ff_pending_cancel_groups",
            "partition_key int!, flow_id uuid!, downstream_eid uuid!, enqueued_at_ms int",
        ),
        _table(
            "ff_cancel_backlog",
            """partition_key int!, flow_id uuid!, requested_at_ms int, requester text='', reason text='', grace_until_ms int?,
            cancellation_policy text, status text='pending'""",
        ),
        _table("ff_cancel_backlog_member", "partition_key int!, flow_id uuid!, execution_id text!"),
        _table(
            "ff_flow_summary",
            """partition_key int!, flow_id uuid!, total_members int=0, sampled_members int=0, members_completed int=0,
            members_failed int=0, members_cancelled int=0, members_expired int=0, members_skipped int=0, members_active int=0,
            members_suspended int=0, members_waiting int=0, members_delayed int=0, members_rate_limited int=0,
            members_waiting_children int=0, public_flow_state text, last_summary_update_at int""",
        ),
        _table(
            "ff_lease_event",
            f"""event_id auto!, execution_id uuidtext, lease_id uuidtext?, lease_epoch int?, worker_instance_id text?,
            event_type text, reason text?, occurred_at_ms int, {_EVENT}""",
            outbox=True,
        ),
        _table(
            "ff_completion_event",
            f"""event_id auto!, execution_id uuid, flow_id uuid?, outcome text, occurred_at_ms int, committed_at_ms int=0,
            dispatched_at_ms int?, {_EVENT}""",
            outbox=True,
        ),
        _table(
            "ff_operator_event",
            f"event_id auto!, execution_id uuidtext, event_type text, details json?, occurred_at_ms int, {_EVENT}",
            outbox=True,
        ),
        _table(
            "ff_suspension_current",
            """partition_key int!, execution_id uuid!, suspension_id uuid, suspended_at_ms int, timeout_at_ms int?,
            reason_code text, condition json, satisfied_set json='[]', timeout_behavior text?, attempt_index int=0,
            requested_by text='worker', resume_policy json='{}', continuation_metadata_pointer text?,
            primary_waitpoint_id uuid?, last_signal_at_ms int?, closer_signal_id uuid?, satisfier_signal_ids json='[]',
            closed_at_ms int?, close_reason text?, version int=0""",
        ),
        _table(
            "ff_waitpoint_pending",
            """partition_key int!, waitpoint_id uuid!, execution_id uuid, token_kid text, token text, created_at_ms int,
            expires_at_ms int?, waitpoint_key text='', state text='pending', required_signal_names json='[]',
            activated_at_ms int?, attempt_index int=0, suspension_id uuid?, signal_count int=0, matched_signal_count int=0,
            last_signal_at_ms int?, satisfied_at_ms int?, closed_at_ms int?, close_reason text?, version int=0,
            signals_trimmed int=0""",
        ),
        _table(
            "ff_signal",
            """partition_key int!, execution_id uuid!, signal_id uuid!, waitpoint_id uuid, waitpoint_key text='',
            suspension_id uuid?, attempt_index int=0, signal_name text='', signal_category text='', source_type text='',
            source_identity text='', correlation_id text='', payload_encoding text?, target_scope text='',
            idempotency_key text?, created_at_ms int, accepted_at_ms int, observed_effect text, matched int=0,
            payload bytes?""",
        ),
        _table(
            "ff_signal_dedup",
            """partition_key int!, waitpoint_id uuid!, idempotency_key text!, execution_id uuid, signal_id uuid,
            expires_at_ms int""",
        ),
        _table(
            "ff_suspend_dedup",
            """partition_key int!, idempotency_key text!, execution_id uuid, outcome_json text, created_at_ms int,
            expires_at_ms int""",
        ),
        _table(
            "ff_waitpoint_hmac",
            "kid text!, rotated_at_ms int, active int=0, expires_at_ms int?, secret bytes",
        ),
        _table(
            "ff_signal_event",
            f"""event_id auto!, execution_id uuidtext, signal_id uuidtext, waitpoint_id uuidtext, source_identity text?,
            event_type text, occurred_at_ms int, {_EVENT}""",
            outbox=True,
        ),
        _table("ff_outbox_trim", "channel text!, event_id int"),
        _table(
            "ff_budget_policy",
            """budget_id uuid!, partition_key int=0, policy_json json, scope_type text='', scope_id text='',
            enforcement_mode text='', breach_count int=0, soft_breach_count int=0, last_breach_at_ms int?, last_breach_dim text?,
            next_reset_at_ms int?, created_at_ms int, updated_at_ms int, version int=0""",
        ),
        _table(
            "ff_budget_usage",
            """budget_id uuid!, dimensions_key text!, partition_key int=0, current_value int=0, last_reset_at_ms int?,
            updated_at_ms int=0""",
        ),
        _table(
            "ff_budget_usage_dedup",
            """budget_id uuid!, dedup_key text!, partition_key int=0, outcome_json json='{}', applied_at_ms int,
            expires_at_ms int""",
        ),
        _table(
            "ff_budget_usage_by_exec",
            """partition_key int!, execution_id uuid!, dimensions_key text!, budget_id uuid!, delta_total int=0,
            updated_at_ms int=0""",
        ),
        _table(
            "ff_quota_policy",
            """quota_policy_id uuid!, partition_key int=0, requests_per_window_seconds int, max_requests_per_window int,
            active_concurrency_cap int, active_concurrency int=0, jitter_ms int=0, closed_until_ms int?, created_at_ms int,
            updated_at_ms int, version int=0""",
        ),
        _table("ff_quota_window", "quota_policy_id uuid!, dimension text!, admitted_at_ms int!, execution_id uuidtext!"),
        _table(
            "ff_quota_admitted",
            "quota_policy_id uuid!, execution_id text!, admitted_at_ms int, expires_at_ms int?",
        ),
        _table("ff_limit_scope", "scope_type text!, scope_id text!, kind text!, limit_id uuid!, attached_at_ms int"),
        _table("ff_lane_gate", "lane_id text!, gate text!, quota_policy_id uuid?"),
    )
}

_RUNNABLE = Cond("lifecycle_phase", "=", "runnable")
_ENDED = Cond("lifecycle_phase", "in", ENDED_PHASES)

INDEXES: dict[str, Index] = {
    i.name: i
    for i in (
        Index("executions", "ff_exec_core", ("execution_id",), ("partition_key",), primary=True),
        Index(
            "ready",
            "ff_exec_core",
            ("priority", "created_at_ms", "execution_id"),
            ("lane_id", "gate"),
            (_RUNNABLE, Cond("eligibility_state", "=", "eligible_now")),
            ("priority",),
        ),
        Index(
            "held",
            "ff_exec_core",
            ("execution_id",),
            ("quota_policy_id",),
            (Cond("quota_policy_id", "not null"), Cond("ownership_state", "=", "leased")),
        ),
        Index(
            "reserved",
            "ff_exec_core",
            ("reserved_until_ms", "execution_id"),
            ("quota_policy_id",),
            (Cond("quota_policy_id", "not null"), Cond("reserved_until_ms", "not null")),
        ),
        Index(
            "blocked_on",
            "ff_exec_core",
            ("priority", "created_at_ms", "execution_id"),
            ("blocked_on",),
            (_RUNNABLE, Cond("blocked_on", "not null")),
            ("priority",),
        ),
        Index(
            "delayed",
            "ff_exec_core",
            ("delay_until_ms", "execution_id"),
            (),
            (_RUNNABLE, Cond("eligibility_state", "=", "not_eligible_until_time")),
        ),
        Index(
            "leased",
            "ff_exec_core",
            ("lease_expires_at_ms", "execution_id"),
            (),
            (Cond("ownership_state", "=", "leased"),),
        ),
        Index(
            "lost",
            "ff_exec_core",
            ("lease_expires_at_ms", "execution_id"),
            (),
            (Cond("ownership_state", "=", "lease_expired_reclaimable"),),
        ),
        Index(
            "attempt_timeout",
            "ff_exec_core",
            ("attempt_timeout_at_ms", "execution_id"),
            (),
            (Cond("attempt_timeout_at_ms", "not null"), Cond("lifecycle_phase", "=", "active")),
        ),
        Index(
            "deadline",
            "ff_exec_core",
            ("deadline_at_ms", "execution_id"),
            (),
            (
                Cond("deadline_at_ms", "not null"),
                Cond("lifecycle_phase", "in", ("submitted", "runnable", "active", "suspended")),
            ),
        ),
        Index(
            "routed",
            "ff_exec_core",
            ("last_transition_at", "execution_id"),
            (),
            (_RUNNABLE, Cond("eligibility_state", "=", "blocked_by_route")),
        ),
        Index(
            "limited",
            "ff_exec_core",
            ("last_transition_at", "execution_id"),
            (),
            (_RUNNABLE, Cond("eligibility_state", "in", ("blocked_by_budget", "blocked_by_quota"))),
        ),
        Index(
            "ended",
            "ff_exec_core",
            ("terminal_at_ms", "execution_id"),
            ("lane_id",),
            (_ENDED, Cond("retain_until_ms", "is null")),
        ),
        Index(
            "retained",
            "ff_exec_core",
            ("retain_until_ms", "execution_id"),
            ("lane_id",),
            (_ENDED, Cond("retain_until_ms", "not null")),
        ),
        Index("attempts", "ff_attempt", ("attempt_index",), ("partition_key", "execution_id"), primary=True),
        Index(
            "last_attempt",
            "ff_attempt",
            ("attempt_index",),
            ("partition_key", "execution_id"),
            descending=("attempt_index",),
            primary=True,
        ),
        Index("grants", "ff_claim_grant", ("expires_at_ms", "execution_id")),
        Index("lanes", "ff_lane_registry", ("lane_id",), primary=True),
        Index("idempotency", "ff_idempotency", ("expires_at_ms", "namespace", "idempotency_key")),
        Index("workers", "ff_worker_registry", ("worker_instance_id",), ("namespace",), primary=True),
        Index("all_workers", "ff_worker_registry", ("namespace", "worker_instance_id"), primary=True),
        Index("worker_expiry", "ff_worker_registry", ("expires_at_ms", "namespace", "worker_instance_id")),
        Index("worker_events", "ff_worker_registry_event", ("event_at_ms", "event_id")),
        Index("members", "ff_exec_core", ("execution_id",), ("partition_key", "flow_id"), (Cond("flow_id", "not null"),)),
        Index(
            "dependent",
            "ff_exec_core",
            ("last_transition_at", "execution_id"),
            (),
            (_RUNNABLE, Cond("eligibility_state", "=", "blocked_by_dependencies")),
        ),
        Index("flows", "ff_flow_core", ("flow_id",), ("partition_key",), primary=True),
        Index("unsettled_flows", "ff_flow_core", ("created_at_ms", "flow_id"), (), (Cond("settled_at_ms", "is null"),)),
        Index("edges", "ff_edge", ("edge_id",), ("partition_key", "flow_id"), primary=True),
        Index("edges_out", "ff_edge", ("edge_id",), ("partition_key", "upstream_eid")),
        Index("edges_in", "ff_edge", ("edge_id",), ("partition_key", "downstream_eid")),
        Index("groups_of_flow", "ff_edge_group", ("downstream_eid",), ("partition_key", "flow_id"), primary=True),
        Index("cancel_groups", "ff_pending_cancel_groups", ("enqueued_at_ms", "flow_id", "downstream_eid")),
        Index("cancel_backlog", "ff_cancel_backlog", ("grace_until_ms", "flow_id"), (), (Cond("grace_until_ms", "not null"),)),
        Index(
            "cancel_backlog_since",
            "ff_cancel_backlog",
            ("requested_at_ms", "flow_id"),
            (),
            (Cond("grace_until_ms", "is null"),),
        ),
        Index(
            "cancel_backlog_members", "ff_cancel_backlog_member", ("execution_id",), ("partition_key", "flow_id"), primary=True
        ),
        Index(
            "undispatched",
            "ff_completion_event",
            ("committed_at_ms", "event_id"),
            (),
            (Cond("dispatched_at_ms", "is null"), Cond("flow_id", "not null"), Cond("outcome", "!=", "resumable")),
        ),
        Index(
            "suspended",
            "ff_suspension_current",
            ("suspended_at_ms", "execution_id"),
            ("partition_key",),
            (Cond("closed_at_ms", "is null"),),
        ),
        Index(
            "suspension_timeout",
            "ff_suspension_current",
            ("timeout_at_ms", "execution_id"),
            (),
            (Cond("closed_at_ms", "is null"), Cond("timeout_at_ms", "not null")),
        ),
        Index("waitpoints_of", "ff_waitpoint_pending", ("waitpoint_id",), ("partition_key", "execution_id")),
        Index(
            "waitpoint_expiry",
            "ff_waitpoint_pending",
            ("expires_at_ms", "waitpoint_id"),
            (),
            (Cond("state", "=", "pending"), Cond("expires_at_ms", "not null")),
        ),
        Index(
            "open_waitpoints",
            "ff_waitpoint_pending",
            ("created_at_ms", "waitpoint_id"),
            (),
            (Cond("state", "in", ("pending", "active")),),
        ),
        Index("signals_of", "ff_signal", ("accepted_at_ms", "signal_id"), ("partition_key", "execution_id")),
        Index("signal_dedup_expiry", "ff_signal_dedup", ("expires_at_ms", "waitpoint_id", "idempotency_key")),
        Index("suspend_dedup_expiry", "ff_suspend_dedup", ("expires_at_ms", "idempotency_key")),
        Index("signal_dedup_of", "ff_signal_dedup", ("waitpoint_id", "idempotency_key"), ("partition_key", "execution_id")),
        Index("suspend_dedup_of", "ff_suspend_dedup", ("idempotency_key",), ("partition_key", "execution_id")),
        Index("hmac_keys", "ff_waitpoint_hmac", ("kid",), primary=True),
        Index("budgets", "ff_budget_policy", ("budget_id",), primary=True),
        Index(
            "budget_resets",
            "ff_budget_policy",
            ("next_reset_at_ms", "budget_id"),
            (),
            (Cond("next_reset_at_ms", "not null"),),
        ),
        Index("usage_of", "ff_budget_usage", ("dimensions_key",), ("budget_id",), primary=True),
        Index("usage_dedup_expiry", "ff_budget_usage_dedup", ("expires_at_ms", "budget_id", "dedup_key")),
        Index(
            "ledger_of",
            "ff_budget_usage_by_exec",
            ("dimensions_key", "budget_id"),
            ("partition_key", "execution_id"),
            primary=True,
        ),
        Index("ledger_of_budget", "ff_budget_usage_by_exec", ("partition_key", "execution_id", "dimensions_key"), ("budget_id",)),
        Index("quotas", "ff_quota_policy", ("quota_policy_id",), primary=True),
        Index(
            "quota_window",
            "ff_quota_window",
            ("admitted_at_ms", "execution_id"),
            ("quota_policy_id", "dimension"),
            primary=True,
        ),
        Index(
            "quota_entries",
            "ff_quota_window",
            ("dimension", "admitted_at_ms", "execution_id"),
            ("quota_policy_id",),
            primary=True,
        ),
        Index("quota_admitted", "ff_quota_admitted", ("execution_id",), ("quota_policy_id",), primary=True),
        Index("limit_scopes", "ff_limit_scope", ("scope_type", "scope_id", "kind", "limit_id"), primary=True),
        Index("lane_gates", "ff_lane_gate", ("gate",), ("lane_id",), primary=True),
        Index("signal_events_of", "ff_signal_event", ("event_id",), ("execution_id",)),
        Index("lease_events_of", "ff_lease_event", ("event_id",), ("execution_id",)),
        Index("completion_events_of", "ff_completion_event", ("event_id",), ("execution_id",)),
        Index("operator_events_of", "ff_operator_event", ("event_id",), ("execution_id",)),
    )
}


def channels_of(form: Form) -> tuple[str, ...]:
    """The outboxes a form tells something in."""
    return tuple(dict.fromkeys(s.table for s in form.steps if isinstance(s, Insert) and TABLES[s.table].outbox))


OUTBOXES = tuple(t.name for t in TABLES.values() if t.outbox)
