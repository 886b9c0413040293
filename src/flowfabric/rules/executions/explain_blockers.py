"""What keeps a claimable execution from being claimed: its lane, workers, budgets and quota."""

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
from flowfabric.model.quota import DEFAULT_WINDOW_S
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions.phrasing import (
    NOTHING_TO_DO,
    ago,
    clipped,
    coming,
    counted,
    quoted,
    span,
)
from flowfabric.rules.executions.quarantine import damaged_list
from flowfabric.rules.limits.breach_actions import REFUSED

_LANES = {
    "paused": (Why.LANE_PAUSED, "is paused: it accepts work and grants none"),
    "disabled": (Why.LANE_DISABLED, "is disabled: it neither accepts nor grants work"),
    "draining": (Why.LANE_DRAINING, "is draining: it accepts no new work and runs the rest"),
}


def claim_blockers(looked: Looked, own: Why | None = None) -> list[Reason]:
    """Everything that would stop the next claim, besides `own`, the state of the execution."""
    damaged = damaged_list(looked.execution)
    if damaged:
        says = f"its {damaged} cannot be read, so it cannot be claimed; the next claim blocks it"
        hint = "repair the row in the database, or cancel it"
        return [*held_lane(looked), Reason(Why.UNKNOWN, says, hint)]
    found = held_lane(looked)
    if reserved := reservation(looked):
        return [*found, *reserved]
    if own is not Why.WAITING_FOR_CAPABLE_WORKER:
        found += missing_worker(looked) or unknown_task(looked)
    if own is not Why.WAITING_FOR_BUDGET:
        found += spent_budgets(looked)
    if own is not Why.WAITING_FOR_QUOTA:
        found += used_quota(looked)
    return found


def held_lane(looked: Looked) -> list[Reason]:
    return [] if looked.lane is None or not looked.lane.is_held else [_lane(looked)]


def draining_lane(looked: Looked) -> list[Reason]:
    """A draining lane does not stop the execution; it explains why no new work is accepted."""
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
    until = looked.execution.reserved_until_ms
    if until is None or until < looked.now_ms:
        return []
    worker, left = clipped(looked.execution.reserved_for), coming(looked.now_ms, until)
    says = f"it is reserved for worker `{worker}`; the reservation ends{left}"
    hint = "nothing to do: an unused reservation expires"
    facts = Reservation(worker, until)
    return [Reason(Why.RESERVED, says, hint, until_ms=until, facts=facts)]


def serving(looked: Looked) -> list[WorkerInfo]:
    """The live workers of its namespace and lane."""
    return [w for w in looked.workers if looked.execution.lane_id in w.lanes]


def able(looked: Looked) -> list[WorkerInfo]:
    return [w for w in serving(looked) if not _missing(looked, w)]


def _missing(looked: Looked, worker: WorkerInfo) -> tuple[str, ...]:
    return tuple(c for c in looked.execution.required_capabilities if c not in worker.capabilities)


def missing_worker(looked: Looked) -> list[Reason]:
    """Nothing if a worker can run it, or if no worker is registered at all."""
    if able(looked) or not looked.workers or not looked.execution.required_capabilities:
        return []
    return [_unrouted(looked)]


def unknown_task(looked: Looked) -> list[Reason]:
    """A task name that no live worker of the lane declares, although all of them declare tasks."""
    execution, there = looked.execution, serving(looked)
    named = f"{TASK}{execution.execution_kind}"
    if any(token.startswith(TASK) for token in execution.required_capabilities) or not there:
        return []
    known = [{token for token in worker.capabilities if token.startswith(TASK)} for worker in there]
    if not all(known) or any(named in each for each in known):
        return []
    tasks = sorted(token.removeprefix(TASK) for token in set().union(*known))
    kind = clipped(execution.execution_kind)
    return [
        Reason(
            Why.WAITING_FOR_CAPABLE_WORKER,
            f"no live worker on lane `{execution.lane_id}` has a task `{kind}`; "
            f"they have {quoted(tasks)}",
            "start a worker that has this task; if the name is mistyped, cancel it and submit it "
            "under the right one",
            execution.last_transition_at,
            facts=Routing((named,), (named,), len(there), _near(looked, there[0])),
        )
    ]


def parked(looked: Looked) -> Reason:
    """As `missing_worker`, for an execution that is parked until a capable worker registers."""
    if not able(looked):
        return _unrouted(looked)
    return Reason(
        Why.WAITING_FOR_CAPABLE_WORKER,
        "a capable worker is registered now; it is about to be unblocked",
        NOTHING_TO_DO,
        looked.execution.last_transition_at,
        facts=_facts(looked),
    )


def _unrouted(looked: Looked) -> Reason:
    execution, facts = looked.execution, _facts(looked)
    where = f"live worker of namespace `{execution.namespace}` on lane `{execution.lane_id}`"
    needs = quoted(execution.required_capabilities)
    if facts.missing_everywhere:
        says = f"no {where} offers {quoted(facts.missing_everywhere)}"
    else:
        says = f"no single {where} offers all of {needs}"
    near = facts.nearest
    if near is not None:
        lacks = f"lacks {quoted(near.missing)}" if near.missing else "serves other lanes"
        says += f"; the nearest, `{clipped(near.worker_instance_id)}`, {lacks}"
    return Reason(
        Why.WAITING_FOR_CAPABLE_WORKER,
        says,
        f"register a worker for this lane that offers {needs or 'what it needs'}",
        execution.last_transition_at,
        facts=facts,
    )


def _facts(looked: Looked) -> Routing:
    offered = {capability for worker in serving(looked) for capability in worker.capabilities}
    required, lane = looked.execution.required_capabilities, looked.execution.lane_id
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
    serves = looked.execution.lane_id in worker.lanes
    return NearWorker(worker.worker_id, worker.worker_instance_id, missing, serves)


def queued(looked: Looked) -> Reason:
    """Nothing blocks the execution: it waits for its turn, or for a worker to start."""
    execution, there, can = looked.execution, serving(looked), able(looked)
    code, says = Why.WAITING_FOR_WORKER, f"{counted(len(can), 'live worker')} can run it"
    hint = "wait, start more workers, or move it ahead with change_priority"
    if not there:
        code = Why.NO_LIVE_WORKER
        says = f"no live worker is registered for lane `{execution.lane_id}`"
        says += f" in namespace `{execution.namespace}`"
        hint = "start a worker; a worker that claims without registering is not counted"
    return Reason(
        code,
        f"it can be claimed, {'but' if not there else 'and'} {says}; {_position(looked)}",
        hint,
        execution.last_transition_at or execution.created_at_ms,
        facts=Queue(looked.ahead, len(there), len(can)),
    )


def _position(looked: Looked) -> str:
    lane = f"of lane `{looked.execution.lane_id}`"
    if looked.ahead is None:
        return f"more than {MAX_AHEAD:,} executions {lane} are ahead of it"
    if not looked.ahead:
        return f"it is the first {lane}"
    are = "is" if looked.ahead == 1 else "are"
    return f"{counted(looked.ahead, 'execution')} {lane} {are} ahead of it"


def spent_budgets(looked: Looked) -> list[Reason]:
    found = [
        _spent(looked, budget, dimension, used, limit)
        for budget in looked.budgets
        for dimension, limit in sorted(budget.limits.items())
        if limit and (used := budget.used.get(dimension, 0)) >= limit
    ]
    return found[:MAX_LISTED]


def _spent(looked: Looked, budget: Budget, dimension: str, used: int, limit: int) -> Reason:
    resets = coming(looked.now_ms, budget.resets_at_ms)
    says = f"{_called(budget)} has no {clipped(dimension)} left ({used:,} of {limit:,} used)"
    return Reason(
        Why.WAITING_FOR_BUDGET,
        f"{says}; it {f'resets{resets}' if resets else 'has no reset interval'}",
        _reset_hint(reset=bool(resets)),
        until_ms=budget.resets_at_ms,
        facts=SpentBudget(budget.budget_id, dimension, used, limit, budget.resets_at_ms),
    )


def _reset_hint(*, reset: bool) -> str:
    wait = "wait for the reset, or " if reset else ""
    return f"{wait}reset_budget, or update_budget with a higher limit"


def _called(budget: Budget) -> str:
    ident = budget.budget_id
    return f"budget `{clipped(budget.name)}` ({ident})" if budget.name else f"budget {ident}"


def refused_report(looked: Looked) -> list[Reason]:
    """A usage report of the execution was refused by a budget, which may have capacity for less.

    Other spent budgets follow.
    """
    execution = looked.execution
    prefix, _, ident = (execution.blocked_on or "").rpartition(REFUSED)
    budget = next((each for each in looked.budgets if each.budget_id == ident), None)
    if prefix or not ident or budget is None:
        return []
    dimension = execution.blocking_detail.removeprefix(f"budget {ident}: ").rpartition(" ")[0]
    used, limit = budget.used.get(dimension, 0), budget.limits.get(dimension, 0)
    resets = coming(looked.now_ms, budget.resets_at_ms)
    until = f"resets{resets}, " if resets else ""
    own = Reason(
        Why.WAITING_FOR_BUDGET,
        f"{_called(budget)} refused its usage report: {used:,} of {limit:,} {clipped(dimension)} "
        "are used, and the report exceeds the rest; it is blocked until the budget "
        f"{until}is reset, has usage released, or gets other limits",
        _reset_hint(reset=bool(resets)),
        execution.last_transition_at,
        budget.resets_at_ms,
        SpentBudget(ident, dimension, used, limit, budget.resets_at_ms),
    )
    others = (r for r in spent_budgets(looked) if getattr(r.facts, "budget_id", "") != ident)
    return [own, *others]


def used_quota(looked: Looked) -> list[Reason]:
    quota = looked.quota
    if quota is None:
        return []
    now, window_s = looked.now_ms, quota.window_s or DEFAULT_WINDOW_S
    inside = sorted(at for at in quota.admitted_at_ms if at > now - window_s * 1_000)
    closed_until, rate, cap = quota.closed_until_ms, quota.most_in_window, quota.most_at_once
    if closed_until is not None and closed_until > now:
        says = f"is closed for another {span(closed_until - now)}"
        return [_quota(quota, "closed", len(inside), closed_until, says)]
    if rate and len(inside) >= rate:
        opens = inside[len(inside) - rate] + window_s * 1_000
        says = f"has admitted its {rate:,} in {window_s:,} s; its window opens{coming(now, opens)}"
        return [_quota(quota, "rate", len(inside), opens, says)]
    if cap and quota.held >= cap:
        says = f"allows {counted(cap, 'execution')} at once, and {quota.held:,} hold a slot"
        return [_quota(quota, "concurrency", quota.held, None, says)]
    return []


def _quota(quota: Quota, cause: str, used: int, opens_at_ms: int | None, says: str) -> Reason:
    concurrency = cause == "concurrency"
    limit = quota.most_at_once if concurrency else quota.most_in_window
    window_s = quota.window_s or DEFAULT_WINDOW_S
    return Reason(
        Why.WAITING_FOR_QUOTA,
        f"quota {quota.quota_policy_id} {says}",
        "wait until one of them ends" if concurrency else "wait",
        until_ms=opens_at_ms,
        facts=UsedQuota(quota.quota_policy_id, cause, used, limit, window_s, opens_at_ms),
    )


def limit_reasons(looked: Looked, code: Why, what: str, found: Sequence[Reason]) -> list[Reason]:
    """The limits that block the execution, or that they have capacity and it is unblocked soon."""
    if found:
        return list(found)
    detail = clipped(looked.execution.blocking_detail)
    was = f" (blocked by: {detail})" if detail else ""
    says = f"{what} has capacity again{was}; it is about to be unblocked"
    return [Reason(code, says, NOTHING_TO_DO, looked.execution.last_transition_at)]
