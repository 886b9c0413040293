"""Why an execution is not running, said in plain words from facts that were read together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flowfabric.model.execution import Execution
from flowfabric.model.explanation import Explanation, Holder, Looked, Outcome, Reason, Why
from flowfabric.rules.executions import explain_blockers as obstacles
from flowfabric.rules.executions import explain_waits as waits
from flowfabric.rules.executions.phrasing import ago, clipped, coming, tail
from flowfabric.rules.states import name_of, vector_of

Explainer = Callable[[Looked], list[Reason]]
LOOPS = "nothing, if some process runs the loops"


def explain(looked: Looked) -> Explanation:
    """The reasons in the order in which they have to go away."""
    execution = looked.execution
    vector = vector_of(execution)
    name = name_of(vector)
    return Explanation(
        execution.id,
        execution.execution_kind,
        execution.namespace,
        execution.lane_id,
        name or "UNKNOWN",
        vector.public_state,
        looked.now_ms,
        (
            *(_unknown(looked) if name is None else EXPLAINED[name](looked)),
            *_held_back_events(looked),
        ),
    )


def _held_back_events(looked: Looked) -> list[Reason]:
    """It keeps nothing from running, but subscribers hear late of what has become of it."""
    writer = looked.writer
    if writer is None:
        return []
    says = f"events are told late: {writer}, and what was committed since then is told when it ends"
    hint = f"see what pg_stat_activity says of pid {writer.pid}, and end that transaction"
    return [Reason(Why.EVENTS_HELD_BACK, says, hint, facts=writer)]


def is_ready(execution: Execution) -> bool:
    return name_of(vector_of(execution)) == "READY"


def looks_ahead(execution: Execution) -> bool:
    """Whether anything besides its own row says why it does not run."""
    return name_of(vector_of(execution)) not in (None, "RUNNING", "ENDED")


def _unknown(looked: Looked) -> list[Reason]:
    return [
        Reason(
            Why.UNKNOWN,
            "its columns contradict each other; no rule ever writes this",
            "flowfabric verify URL",
        )
    ]


# ---- before a claim


def _ready(looked: Looked) -> list[Reason]:
    return [
        *(obstacles.ahead(looked) or [obstacles.queued(looked)]),
        *obstacles.draining_lane(looked),
    ]


def _delayed(looked: Looked) -> list[Reason]:
    unknown = obstacles.unknown_task(looked)
    return [
        *unknown,
        waits.delayed(looked),
        *(each for each in obstacles.ahead(looked) if each not in unknown),
    ]


def _dependent(looked: Looked) -> list[Reason]:
    return [waits.parents(looked), *obstacles.ahead(looked)]


def _over_budget(looked: Looked) -> list[Reason]:
    own = obstacles.refused_report(looked)
    if not own:
        own = obstacles.let_go_soon(
            looked, Why.WAITING_FOR_BUDGET, "its budget", obstacles.spent_budgets(looked)
        )
    return [*own, *obstacles.ahead(looked, Why.WAITING_FOR_BUDGET)]


def _over_quota(looked: Looked) -> list[Reason]:
    own = obstacles.let_go_soon(
        looked, Why.WAITING_FOR_QUOTA, "its quota", obstacles.used_quota(looked)
    )
    return [*own, *obstacles.ahead(looked, Why.WAITING_FOR_QUOTA)]


def _unrouted(looked: Looked) -> list[Reason]:
    if looked.execution.blocking_reason == Why.WAITING_FOR_LOCALITY_MATCH:
        own = Reason(
            Why.WAITING_FOR_LOCALITY_MATCH,
            f"it waits for a worker near its data{tail(looked.execution.blocking_detail)}",
            f'await engine.unblock_execution("{looked.execution.id}")',
            looked.execution.last_transition_at,
        )
    else:
        own = obstacles.parked(looked)
    return [own, *obstacles.ahead(looked, Why.WAITING_FOR_CAPABLE_WORKER)]


def _held_back(looked: Looked) -> list[Reason]:
    own = waits.held_back(looked)
    return [own] if own.code is Why.PAUSED_BY_FLOW_CANCEL else [own, *obstacles.ahead(looked)]


def _suspended(looked: Looked) -> list[Reason]:
    return [waits.suspended(looked), *obstacles.ahead(looked)]


# ---- after a claim


def _running(looked: Looked) -> list[Reason]:
    execution, now = looked.execution, looked.now_ms
    until = execution.lease_expires_at_ms
    holder = _holder(execution)
    who = f"worker `{holder.worker_id}` (`{holder.worker_instance_id}`)"
    if until is not None and until <= now:
        return [
            _expired(
                looked,
                f"the lease of {who} ran out{ago(now, until)} and is about to be taken back",
                holder,
            )
        ]
    done = [] if holder.progress_pct is None else [f"{holder.progress_pct} %"]
    done += [holder.progress_message] if holder.progress_message else []
    says = f"{who} runs it, attempt {holder.attempt_index + 1}, begun{ago(now, holder.since_ms)}"
    says += f"; so far: {', '.join(done)}" if done else ""
    says += f"; its lease ends{coming(now, until)} unless renewed"
    hint = "wait; if the worker is gone, revoke_lease gives it to another"
    return [Reason(Why.RUNNING, says, hint, holder.since_ms, until, holder)]


def _lost(looked: Looked) -> list[Reason]:
    holder = _holder(looked.execution)
    says = f"its lease ran out{ago(looked.now_ms, looked.execution.lease_expires_at_ms)}, worker `{holder.worker_id}` was silent"
    again = "it goes back on its lane when the grace is over"
    return [_expired(looked, f"{says}; {again}", holder), *obstacles.held_lane(looked)]


def _expired(looked: Looked, says: str, holder: Holder) -> Reason:
    since = looked.execution.lease_expires_at_ms
    return Reason(
        Why.LEASE_EXPIRED,
        says,
        LOOPS + "; issue_reclaim_grant takes it over at once",
        since,
        facts=holder,
    )


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
    "success": ("it ended well", "await engine.get_execution_result(...)"),
    "failed": ("it failed for good", "mend the cause, then replay_execution"),
    "cancelled": ("it was cancelled", "replay_execution starts it again"),
    "expired": ("its time ran out", "replay_execution starts it again"),
    "skipped": (
        "it was skipped: what it depends on cannot succeed any more",
        "replay_execution, once its parents were replayed",
    ),
}


def _ended(looked: Looked) -> list[Reason]:
    execution = looked.execution
    said, hint = _ENDS[execution.terminal_outcome]
    if execution.terminal_outcome == "cancelled":
        why, by = clipped(execution.cancellation_reason), clipped(execution.cancelled_by)
    else:
        why, by = (
            "" if execution.terminal_outcome == "success" else clipped(execution.failure_reason),
            "",
        )
    says = f"{said}{ago(looked.now_ms, execution.terminal_at_ms)}{f' by {by}' if by else ''}{tail(why)}"
    facts = Outcome(execution.terminal_outcome, why, execution.terminal_at_ms, by)
    return [Reason(Why.ENDED, says, hint, execution.terminal_at_ms, facts=facts)]


EXPLAINED: Mapping[str, Explainer] = {
    "READY": _ready,
    "DELAYED": _delayed,
    "DEPS": _dependent,
    "BUDGET": _over_budget,
    "QUOTA": _over_quota,
    "ROUTE": _unrouted,
    "OPBLOCK": _held_back,
    "LANEBLOCK": _held_back,
    "RUNNING": _running,
    "LOST": _lost,
    "SUSPENDED": _suspended,
    "ENDED": _ended,
}
