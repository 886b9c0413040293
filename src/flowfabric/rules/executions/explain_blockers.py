"""What keeps a claimable execution from being claimed: its lane, its workers, its budgets and its quota, in that order."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.model.explanation import (
    MAX_AHEAD,
    MAX_LISTED,
    Budget,
    HeldLane,
    Looked,
    NearWorker,
    Queue,
    Quota,
    Reason,
    Reservation,
    Routing,
    SpentBudget,
    UsedQuota,
    Why,
)
from flowfabric.model.policy import TASK
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions.phrasing import ago, clipped, coming, counted, quoted, span
from flowfabric.rules.executions.quarantine import damaged_list
from flowfabric.rules.limits.breach_actions import REFUSED

DEFAULT_WINDOW_S = 60
_LANES = {
    "paused": (Why.LANE_PAUSED, "is paused: it takes work and runs none"),
    "disabled": (Why.LANE_DISABLED, "is disabled: it neither takes nor runs work"),
    "draining": (
        Why.LANE_DRAINING,
        "is draining: it takes no new work, and what is there still runs",
    ),
}


def ahead(looked: Looked, own: Why | None = None) -> list[Reason]:
    """Everything that would stop the next claim, but for the execution's own state."""
    damaged = damaged_list(looked.execution)
    if damaged:
        return [*held_lane(looked), _unreadable(damaged)]
    found = held_lane(looked)
    if reserved := reservation(looked):
        return [*found, *reserved]
    if own is not Why.WAITING_FOR_CAPABLE_WORKER:
        found += routing(looked) or unknown_task(looked)
    if own is not Why.WAITING_FOR_BUDGET:
        found += spent_budgets(looked)
    if own is not Why.WAITING_FOR_QUOTA:
        found += used_quota(looked)
    return found


def _unreadable(column: str) -> Reason:
    return Reason(
        Why.UNKNOWN,
        f"its {column} cannot be read, so nothing claims it; a claim that meets it holds it back",
        "repair the row in the database, or cancel it",
    )


# ---- the lane


def held_lane(looked: Looked) -> list[Reason]:
    return [] if looked.lane is None or not looked.lane.is_held else [_lane(looked)]


def draining_lane(looked: Looked) -> list[Reason]:
    """It stops nothing that is there already, but it is worth knowing."""
    return [] if looked.lane is None or looked.lane.state != "draining" else [_lane(looked)]


def _lane(looked: Looked) -> Reason:
    lane = looked.lane
    assert lane is not None
    code, says = _LANES[lane.state]
    return Reason(
        code,
        f"lane `{lane.lane_id}` {says}, since{ago(looked.now_ms, lane.updated_at_ms)}",
        f'await engine.resume_lane("{lane.lane_id}")',
        lane.updated_at_ms,
        facts=HeldLane(lane.lane_id, lane.state),
    )


def reservation(looked: Looked) -> list[Reason]:
    execution = looked.execution
    until = execution.reserved_until_ms
    if until is None or until < looked.now_ms:
        return []
    worker = clipped(execution.reserved_for)
    return [
        Reason(
            Why.RESERVED,
            f"worker `{worker}` has it reserved and is about to claim it; the reservation ends{coming(looked.now_ms, until)}",
            "nothing: if the worker does not come, it is free again",
            until_ms=until,
            facts=Reservation(worker, until),
        )
    ]


# ---- workers


def serving(looked: Looked) -> list[WorkerInfo]:
    """The live workers of its namespace and lane."""
    return [w for w in looked.workers if looked.execution.lane_id in w.lanes]


def able(looked: Looked) -> list[WorkerInfo]:
    return [w for w in serving(looked) if not _missing(looked, w)]


def _missing(looked: Looked, worker: WorkerInfo) -> tuple[str, ...]:
    return tuple(c for c in looked.execution.required_capabilities if c not in worker.capabilities)


def routing(looked: Looked) -> list[Reason]:
    """Nothing where somebody can run it, and where nobody is known at all."""
    if able(looked) or not looked.workers or not looked.execution.required_capabilities:
        return []
    return [_unrouted(looked)]


def unknown_task(looked: Looked) -> list[Reason]:
    """A name that no live worker of the lane knows, where each of them has said which tasks it knows: a mistyped one, say."""
    execution, there = looked.execution, serving(looked)
    named = f"{TASK}{execution.execution_kind}"
    if any(token.startswith(TASK) for token in execution.required_capabilities) or not there:
        return []
    known = [{token for token in worker.capabilities if token.startswith(TASK)} for worker in there]
    if not all(known) or any(named in each for each in known):
        return []
    tasks = sorted(token.removeprefix(TASK) for token in set().union(*known))
    return [
        Reason(
            Why.WAITING_FOR_CAPABLE_WORKER,
            f"no live worker on lane `{execution.lane_id}` has a task `{clipped(execution.execution_kind)}`; "
            f"they have {quoted(tasks)}",
            "start a worker that has this task; if the name is mistyped, cancel it and submit it under the right one",
            execution.last_transition_at,
            facts=Routing((named,), (named,), len(there), _near(looked, there[0])),
        )
    ]


def parked(looked: Looked) -> Reason:
    """As `routing`, for an execution that is parked for it."""
    if able(looked):
        return Reason(
            Why.WAITING_FOR_CAPABLE_WORKER,
            "it waited for a capable worker; one is there now, and it is about to be let go",
            "nothing, if some process runs the loops",
            looked.execution.last_transition_at,
            facts=_facts(looked),
        )
    return _unrouted(looked)


def _unrouted(looked: Looked) -> Reason:
    execution, facts = looked.execution, _facts(looked)
    where = f"live worker of namespace `{execution.namespace}` on lane `{execution.lane_id}`"
    if facts.missing_everywhere:
        says = f"no {where} offers {quoted(facts.missing_everywhere)}"
    else:
        says = f"no single {where} offers all of {quoted(execution.required_capabilities)}"
    near = facts.nearest
    if near is not None:
        lacks = f"lacks {quoted(near.missing)}" if near.missing else "serves other lanes"
        says += f"; the nearest, `{clipped(near.worker_instance_id)}`, {lacks}"
    return Reason(
        Why.WAITING_FOR_CAPABLE_WORKER,
        says,
        f"register a worker for this lane that offers {quoted(execution.required_capabilities) or 'what it needs'}",
        execution.last_transition_at,
        facts=facts,
    )


def _facts(looked: Looked) -> Routing:
    offered = {capability for worker in serving(looked) for capability in worker.capabilities}
    required = looked.execution.required_capabilities
    lane = looked.execution.lane_id
    near = min(
        looked.workers,
        key=lambda w: (len(_missing(looked, w)), lane not in w.lanes, w.worker_instance_id),
        default=None,
    )
    return Routing(
        required[:MAX_LISTED],
        tuple(c for c in required if c not in offered)[:MAX_LISTED],
        len(serving(looked)),
        None if near is None else _near(looked, near),
    )


def _near(looked: Looked, worker: WorkerInfo) -> NearWorker:
    missing = _missing(looked, worker)[:MAX_LISTED]
    return NearWorker(
        worker.worker_id,
        worker.worker_instance_id,
        missing,
        looked.execution.lane_id in worker.lanes,
    )


def queued(looked: Looked) -> Reason:
    """All is well but for somebody to take it."""
    execution, there, can = looked.execution, serving(looked), able(looked)
    since = execution.last_transition_at or execution.created_at_ms
    facts = Queue(looked.ahead, len(there), len(can))
    if not there:
        return Reason(
            Why.NO_LIVE_WORKER,
            f"it can be claimed, but no live worker is registered for lane `{execution.lane_id}` "
            f"in namespace `{execution.namespace}`; {_place(looked)}",
            "start a worker; those that claim without registering are not counted",
            since,
            facts=facts,
        )
    says = f"{counted(len(can), 'live worker')} can run it"
    return Reason(
        Why.WAITING_FOR_WORKER,
        f"it can be claimed, and {says}; {_place(looked)}",
        "wait, start more workers, or move it ahead with change_priority",
        since,
        facts=facts,
    )


def _place(looked: Looked) -> str:
    lane = f"of lane `{looked.execution.lane_id}`"
    if looked.ahead is None:
        return f"more than {MAX_AHEAD:,} executions {lane} come first"
    return (
        f"{counted(looked.ahead, 'execution')} {lane} come first"
        if looked.ahead
        else f"it is the next {lane}"
    )


# ---- budgets


def spent_budgets(looked: Looked) -> list[Reason]:
    found = []
    for budget in looked.budgets:
        for dimension, limit in sorted(budget.limits.items()):
            used = budget.used.get(dimension, 0)
            if limit and used >= limit:
                resets = coming(looked.now_ms, budget.resets_at_ms)
                found.append(
                    Reason(
                        Why.WAITING_FOR_BUDGET,
                        f"{_called(budget)} has no {clipped(dimension)} left ({used:,} of {limit:,} used)"
                        + (
                            f"; it starts anew{resets}"
                            if resets
                            else "; it does not start anew by itself"
                        ),
                        "wait for the reset, or reset_budget"
                        if resets
                        else "reset_budget, or update_budget with a higher limit",
                        until_ms=budget.resets_at_ms,
                        facts=SpentBudget(
                            budget.budget_id, dimension, used, limit, budget.resets_at_ms
                        ),
                    )
                )
    return found[:MAX_LISTED]


def _called(budget: Budget) -> str:
    return (
        f"budget `{clipped(budget.name)}` ({budget.budget_id})"
        if budget.name
        else f"budget {budget.budget_id}"
    )


def refused_report(looked: Looked) -> list[Reason]:
    """Held because its own report found no room, whatever room there is for less; and by other budgets that have none."""
    execution = looked.execution
    prefix, _, ident = (execution.blocked_on or "").rpartition(REFUSED)
    budget = next((each for each in looked.budgets if each.budget_id == ident), None)
    if prefix or not ident or budget is None:
        return []
    dimension = execution.blocking_detail.removeprefix(f"budget {ident}: ").rpartition(" ")[0]
    used, limit = budget.used.get(dimension, 0), budget.limits.get(dimension, 0)
    resets = coming(looked.now_ms, budget.resets_at_ms)
    own = Reason(
        Why.WAITING_FOR_BUDGET,
        f"{_called(budget)} refused what it reported: {used:,} of {limit:,} {clipped(dimension)} are used, and it asked for more "
        f"than is left; it is held until the budget {f'starts anew{resets}, ' if resets else ''}is reset, given something back, "
        "or gets other limits",
        ("wait for the reset, or " if resets else "")
        + "reset_budget, or update_budget with a higher limit",
        execution.last_transition_at,
        budget.resets_at_ms,
        SpentBudget(ident, dimension, used, limit, budget.resets_at_ms),
    )
    others = [
        reason
        for reason in spent_budgets(looked)
        if getattr(reason.facts, "budget_id", "") != ident
    ]
    return [own, *others]


# ---- quotas


def used_quota(looked: Looked) -> list[Reason]:
    quota = looked.quota
    if quota is None:
        return []
    now, window_s = looked.now_ms, quota.window_s or DEFAULT_WINDOW_S
    inside = sorted(at for at in quota.admitted_at_ms if at > now - window_s * 1_000)
    if quota.closed_until_ms is not None and quota.closed_until_ms > now:
        left = span(quota.closed_until_ms - now)
        return [
            _quota(
                quota, "closed", len(inside), quota.closed_until_ms, f"is closed for another {left}"
            )
        ]
    if quota.most_in_window and len(inside) >= quota.most_in_window:
        opens = inside[len(inside) - quota.most_in_window] + window_s * 1_000
        says = f"admits {quota.most_in_window:,} in {window_s:,} s, and so many were; its window opens{coming(now, opens)}"
        return [_quota(quota, "rate", len(inside), opens, says)]
    if quota.most_at_once and quota.held >= quota.most_at_once:
        says = f"lets {counted(quota.most_at_once, 'execution')} run at once, and {quota.held:,} do"
        return [_quota(quota, "concurrency", quota.held, None, says)]
    return []


def _quota(quota: Quota, cause: str, used: int, opens_at_ms: int | None, says: str) -> Reason:
    limit = quota.most_at_once if cause == "concurrency" else quota.most_in_window
    window_s = quota.window_s or DEFAULT_WINDOW_S
    return Reason(
        Why.WAITING_FOR_QUOTA,
        f"quota {quota.quota_policy_id} {says}",
        "wait until one of them ends" if cause == "concurrency" else "wait",
        until_ms=opens_at_ms,
        facts=UsedQuota(quota.quota_policy_id, cause, used, limit, window_s, opens_at_ms),
    )


def let_go_soon(looked: Looked, code: Why, what: str, found: Sequence[Reason]) -> list[Reason]:
    """The reasons for which it was blocked, or that they are gone and a loop is about to notice."""
    since = looked.execution.last_transition_at
    if found:
        return list(found)
    detail = clipped(looked.execution.blocking_detail)
    was = f" (then: {detail})" if detail else ""
    return [
        Reason(
            code,
            f"{what} has room again{was}; it is about to be let go",
            "nothing, if some process runs the loops",
            since,
        )
    ]
