"""Why an execution is not running, in plain words, from facts that were read together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flowfabric.model.execution import Execution
from flowfabric.model.explanation import Explanation, Holder, Looked, Outcome, Reason, Why
from flowfabric.rules.executions import explain_blockers as blockers
from flowfabric.rules.executions import explain_waits as waits
from flowfabric.rules.executions.phrasing import NOTHING_TO_DO, ago, clipped, coming, tail
from flowfabric.rules.states import name_of, vector_of

Explainer = Callable[[Looked], list[Reason]]


def explain(looked: Looked) -> Explanation:
    """The reasons, in the order in which they have to be resolved."""
    execution = looked.execution
    vector = vector_of(execution)
    name = name_of(vector)
    reasons = _unknown() if name is None else EXPLAINED[name](looked)
    return Explanation(
        execution.id,
        execution.execution_kind,
        execution.namespace,
        execution.lane_id,
        name or "UNKNOWN",
        vector.public_state,
        looked.now_ms,
        (*reasons, *_delayed_events(looked)),
    )


def _delayed_events(looked: Looked) -> list[Reason]:
    """A long transaction blocks no execution, but subscribers receive events late."""
    writer = looked.writer
    if writer is None:
        return []
    says = f"events are delayed: {writer}; later events are delivered when that transaction ends"
    hint = f"look up pid {writer.pid} in pg_stat_activity, and end its transaction"
    return [Reason(Why.EVENTS_HELD_BACK, says, hint, facts=writer)]


def is_ready(execution: Execution) -> bool:
    return name_of(vector_of(execution)) == "READY"


def looks_ahead(execution: Execution) -> bool:
    """Whether rows other than its own can keep the execution from running."""
    return name_of(vector_of(execution)) not in (None, "RUNNING", "ENDED")


def _unknown() -> list[Reason]:
    says = "its columns contradict each other; no rule writes this combination"
    return [Reason(Why.UNKNOWN, says, "flowfabric verify --db URL")]


def _ready(looked: Looked) -> list[Reason]:
    found = blockers.claim_blockers(looked) or [blockers.queued(looked)]
    return [*found, *blockers.draining_lane(looked)]


def _delayed(looked: Looked) -> list[Reason]:
    unknown = blockers.unknown_task(looked)
    others = [each for each in blockers.claim_blockers(looked) if each not in unknown]
    return [*unknown, waits.delayed(looked), *others]


def _dependent(looked: Looked) -> list[Reason]:
    return [waits.parents(looked), *blockers.claim_blockers(looked)]


def _over_budget(looked: Looked) -> list[Reason]:
    code = Why.WAITING_FOR_BUDGET
    own = blockers.refused_report(looked) or blockers.limit_reasons(
        looked, code, "its budget", blockers.spent_budgets(looked)
    )
    return [*own, *blockers.claim_blockers(looked, code)]


def _over_quota(looked: Looked) -> list[Reason]:
    code = Why.WAITING_FOR_QUOTA
    own = blockers.limit_reasons(looked, code, "its quota", blockers.used_quota(looked))
    return [*own, *blockers.claim_blockers(looked, code)]


def _unrouted(looked: Looked) -> list[Reason]:
    execution = looked.execution
    if execution.blocking_reason == Why.WAITING_FOR_LOCALITY_MATCH:
        own = Reason(
            Why.WAITING_FOR_LOCALITY_MATCH,
            f"it waits for a worker near its data{tail(execution.blocking_detail)}",
            f"flowfabric release {execution.id.uuid}",
            execution.last_transition_at,
        )
    else:
        own = blockers.parked(looked)
    return [own, *blockers.claim_blockers(looked, Why.WAITING_FOR_CAPABLE_WORKER)]


def _blocked(looked: Looked) -> list[Reason]:
    own = waits.blocked(looked)
    if own.code is Why.PAUSED_BY_FLOW_CANCEL:
        return [own]
    return [own, *blockers.claim_blockers(looked)]


def _suspended(looked: Looked) -> list[Reason]:
    return [waits.suspended(looked), *blockers.claim_blockers(looked)]


def _running(looked: Looked) -> list[Reason]:
    execution, now = looked.execution, looked.now_ms
    until = execution.lease_expires_at_ms
    holder = _holder(execution)
    who = f"worker `{holder.worker_id}` (`{holder.worker_instance_id}`)"
    if until is not None and until <= now:
        says = f"the lease of {who} expired{ago(now, until)} and is about to be marked as lost"
        return [_expired(looked, says, holder)]
    done = [] if holder.progress_pct is None else [f"{holder.progress_pct} %"]
    done += [holder.progress_message] if holder.progress_message else []
    says = f"{who} runs attempt {holder.attempt_index + 1}, started{ago(now, holder.since_ms)}"
    says += f"; progress: {', '.join(done)}" if done else ""
    says += f"; its lease expires{coming(now, until)} unless renewed"
    hint = f"wait; if the worker is gone: flowfabric revoke {execution.id.uuid}"
    return [Reason(Why.RUNNING, says, hint, holder.since_ms, until, holder)]


def _lost(looked: Looked) -> list[Reason]:
    holder = _holder(looked.execution)
    says = (
        f"its lease expired{ago(looked.now_ms, looked.execution.lease_expires_at_ms)}, worker "
        f"`{holder.worker_id}` did not renew it; it returns to its lane after the grace period"
    )
    return [_expired(looked, says, holder), *blockers.held_lane(looked)]


def _expired(looked: Looked, says: str, holder: Holder) -> Reason:
    hint = f"{NOTHING_TO_DO}; issue_reclaim_grant takes the execution over at once"
    since = looked.execution.lease_expires_at_ms
    return Reason(Why.LEASE_EXPIRED, says, hint, since, facts=holder)


def _holder(execution: Execution) -> Holder:
    return Holder(
        clipped(execution.current_worker_id),
        clipped(execution.current_worker_instance_id),
        execution.lease_acquired_at,
        execution.lease_expires_at_ms,
        execution.attempt_index,
        execution.progress_pct,
        clipped(execution.progress_message),
        execution.progress_updated_at,
    )


_ENDS = {
    "success": ("it completed", "flowfabric result {0}"),
    "failed": ("it failed", "fix the cause, then: flowfabric retry {0}"),
    "cancelled": ("it was cancelled", "to start it again: flowfabric replay {0}"),
    "expired": ("it expired", "to start it again: flowfabric retry {0}"),
    "skipped": (
        "it was skipped, because its dependencies cannot be met,",
        "after its upstream executions were replayed: flowfabric replay {0}",
    ),
}


def _ended(looked: Looked) -> list[Reason]:
    execution = looked.execution
    outcome, at = execution.terminal_outcome, execution.terminal_at_ms
    says, hint = _ENDS[outcome]
    why = by = ""
    if outcome == "cancelled":
        why, by = clipped(execution.cancellation_reason), clipped(execution.cancelled_by)
    elif outcome != "success":
        why = clipped(execution.failure_reason)
    says += f"{ago(looked.now_ms, at)}{f' by {by}' if by else ''}{tail(why)}"
    facts = Outcome(outcome, why, at, by)
    return [Reason(Why.ENDED, says, hint.format(execution.id.uuid), at, facts=facts)]


EXPLAINED: Mapping[str, Explainer] = {
    "READY": _ready,
    "DELAYED": _delayed,
    "DEPS": _dependent,
    "BUDGET": _over_budget,
    "QUOTA": _over_quota,
    "ROUTE": _unrouted,
    "OPBLOCK": _blocked,
    "LANEBLOCK": _blocked,
    "RUNNING": _running,
    "LOST": _lost,
    "SUSPENDED": _suspended,
    "ENDED": _ended,
}
