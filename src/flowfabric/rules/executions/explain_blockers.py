"""What keeps a claimable execution from being claimed: its lane, workers, budgets and quota."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from flowfabric.model import explanation as model
from flowfabric.model.policy import TASK
from flowfabric.model.quota import DEFAULT_WINDOW_S
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions import phrasing as say
from flowfabric.rules.executions.quarantine import damaged_list
from flowfabric.rules.limits.breach_actions import REFUSED

_LANES = {
    "paused": (model.Why.LANE_PAUSED, "is paused: it accepts work and grants none"),
    "disabled": (model.Why.LANE_DISABLED, "is disabled: it neither accepts nor grants work"),
    "draining": (model.Why.LANE_DRAINING, "is draining: it accepts no new work and runs the rest"),
}


def claim_blockers(looked: model.Looked, own: model.Why | None = None) -> list[model.Reason]:
    """Everything that would stop the next claim, besides `own`, the state of the execution."""
    damaged = damaged_list(looked.execution)
    if damaged:
        says = f"its {damaged} cannot be read, so it cannot be claimed; the next claim blocks it"
        hint = "repair the row in the database, or cancel it"
        return [*held_lane(looked), model.Reason(model.Why.UNKNOWN, says, hint)]
    found = held_lane(looked)
    if reserved := reservation(looked):
        return [*found, *reserved]
    if own is not model.Why.WAITING_FOR_CAPABLE_WORKER:
        found += missing_worker(looked) or unknown_task(looked)
    if own is not model.Why.WAITING_FOR_BUDGET:
        found += spent_budgets(looked)
    if own is not model.Why.WAITING_FOR_QUOTA:
        found += used_quota(looked)
    return found


def held_lane(looked: model.Looked) -> list[model.Reason]:
    return [] if looked.lane is None or not looked.lane.is_held else [_lane(looked)]


def draining_lane(looked: model.Looked) -> list[model.Reason]:
    """A draining lane does not stop the execution; it explains why no new work is accepted."""
    return [] if looked.lane is None or looked.lane.state != "draining" else [_lane(looked)]


def _lane(looked: model.Looked) -> model.Reason:
    lane = looked.lane
    assert lane is not None
    code, says = _LANES[lane.state]
    return model.Reason(
        code,
        f"lane `{lane.lane_id}` {says}, since{say.ago(looked.now_ms, lane.updated_at_ms)}",
        f"flowfabric lanes resume {shlex.quote(lane.lane_id)}",
        lane.updated_at_ms,
        facts=model.HeldLane(lane.lane_id, lane.state),
    )


def reservation(looked: model.Looked) -> list[model.Reason]:
    until = looked.execution.reserved_until_ms
    if until is None or until < looked.now_ms:
        return []
    worker, left = say.clipped(looked.execution.reserved_for), say.coming(looked.now_ms, until)
    says = f"it is reserved for worker `{worker}`; the reservation ends{left}"
    hint = "nothing to do: an unused reservation expires"
    facts = model.Reservation(worker, until)
    return [model.Reason(model.Why.RESERVED, says, hint, until_ms=until, facts=facts)]


def serving(looked: model.Looked) -> list[WorkerInfo]:
    """The live workers of its namespace and lane."""
    return [w for w in looked.workers if looked.execution.lane_id in w.lanes]


def able(looked: model.Looked) -> list[WorkerInfo]:
    return [w for w in serving(looked) if not _missing(looked, w)]


def _missing(looked: model.Looked, worker: WorkerInfo) -> tuple[str, ...]:
    return tuple(c for c in looked.execution.required_capabilities if c not in worker.capabilities)


def missing_worker(looked: model.Looked) -> list[model.Reason]:
    """Nothing if a worker can run it, or if no worker is registered at all."""
    if able(looked) or not looked.workers or not looked.execution.required_capabilities:
        return []
    return [_unrouted(looked)]


def unknown_task(looked: model.Looked) -> list[model.Reason]:
    """A task name that no live worker of the lane declares, although all of them declare tasks."""
    execution, there = looked.execution, serving(looked)
    named = f"{TASK}{execution.execution_kind}"
    if any(token.startswith(TASK) for token in execution.required_capabilities) or not there:
        return []
    known = [{token for token in worker.capabilities if token.startswith(TASK)} for worker in there]
    if not all(known) or any(named in each for each in known):
        return []
    tasks = say.quoted(sorted(token.removeprefix(TASK) for token in set().union(*known)))
    lane, kind = execution.lane_id, say.clipped(execution.execution_kind)
    says = f"no live worker on lane `{lane}` has a task `{kind}`; they have {tasks}"
    right = "if the name is mistyped, cancel it and submit it under the right one"
    hint = f"start a worker that has this task; {right}"
    facts = model.Routing((named,), (named,), len(there), _near(looked, there[0]))
    return [_no_worker(looked, says, hint, facts)]


def parked(looked: model.Looked) -> model.Reason:
    """As `missing_worker`, for an execution that is parked until a capable worker registers."""
    if not able(looked):
        return _unrouted(looked)
    says = "a capable worker is registered now; it is about to be unblocked"
    return _no_worker(looked, says, say.NOTHING_TO_DO, _facts(looked))


def _no_worker(looked: model.Looked, says: str, hint: str, facts: model.Routing) -> model.Reason:
    since = looked.execution.last_transition_at
    return model.Reason(model.Why.WAITING_FOR_CAPABLE_WORKER, says, hint, since, facts=facts)


def _unrouted(looked: model.Looked) -> model.Reason:
    execution, facts = looked.execution, _facts(looked)
    where = f"live worker of namespace `{execution.namespace}` on lane `{execution.lane_id}`"
    needs = say.quoted(execution.required_capabilities)
    missing, near = facts.missing_everywhere, facts.nearest
    says = f"no {where} offers {say.quoted(missing)}"
    if not missing:
        says = f"no single {where} offers all of {needs}"
    if near is not None:
        lacks = f"lacks {say.quoted(near.missing)}" if near.missing else "serves other lanes"
        says += f"; the nearest, `{say.clipped(near.worker_instance_id)}`, {lacks}"
    hint = f"register a worker for this lane that offers {needs or 'what it needs'}"
    return _no_worker(looked, says, hint, facts)


def _facts(looked: model.Looked) -> model.Routing:
    offered = {capability for worker in serving(looked) for capability in worker.capabilities}
    required, lane = looked.execution.required_capabilities, looked.execution.lane_id
    near = min(
        looked.workers,
        key=lambda w: (len(_missing(looked, w)), lane not in w.lanes, w.worker_instance_id),
        default=None,
    )
    return model.Routing(
        required[: model.MAX_LISTED],
        tuple(c for c in required if c not in offered)[: model.MAX_LISTED],
        len(serving(looked)),
        None if near is None else _near(looked, near),
    )


def _near(looked: model.Looked, worker: WorkerInfo) -> model.NearWorker:
    missing = _missing(looked, worker)[: model.MAX_LISTED]
    serves = looked.execution.lane_id in worker.lanes
    return model.NearWorker(worker.worker_id, worker.worker_instance_id, missing, serves)


def queued(looked: model.Looked) -> model.Reason:
    """Nothing blocks the execution: it waits for its turn, or for a worker to start."""
    execution, there, can = looked.execution, serving(looked), able(looked)
    code, says = model.Why.WAITING_FOR_WORKER, f"{say.counted(len(can), 'live worker')} can run it"
    hint = "wait, start more workers, or move it ahead with `flowfabric priority`"
    if not there:
        code = model.Why.NO_LIVE_WORKER
        says = f"no live worker is registered for lane `{execution.lane_id}`"
        says += f" in namespace `{execution.namespace}`"
        hint = "start a worker; a worker that claims without registering is not counted"
    return model.Reason(
        code,
        f"it can be claimed, {'but' if not there else 'and'} {says}; {_position(looked)}",
        hint,
        execution.last_transition_at or execution.created_at_ms,
        facts=model.Queue(looked.ahead, len(there), len(can)),
    )


def _position(looked: model.Looked) -> str:
    lane = f"of lane `{looked.execution.lane_id}`"
    if looked.ahead is None:
        return f"more than {model.MAX_AHEAD:,} executions {lane} are ahead of it"
    if not looked.ahead:
        return f"it is the first {lane}"
    are = "is" if looked.ahead == 1 else "are"
    return f"{say.counted(looked.ahead, 'execution')} {lane} {are} ahead of it"


def spent_budgets(looked: model.Looked) -> list[model.Reason]:
    found = [
        _spent(looked, budget, dimension, used, limit)
        for budget in looked.budgets
        for dimension, limit in sorted(budget.limits.items())
        if limit and (used := budget.used.get(dimension, 0)) >= limit
    ]
    return found[: model.MAX_LISTED]


def _spent(
    looked: model.Looked, budget: model.Budget, dimension: str, used: int, limit: int
) -> model.Reason:
    resets = say.coming(looked.now_ms, budget.resets_at_ms)
    says = f"{_called(budget)} has no {say.clipped(dimension)} left ({used:,} of {limit:,} used)"
    return model.Reason(
        model.Why.WAITING_FOR_BUDGET,
        f"{says}; it {f'resets{resets}' if resets else 'has no reset interval'}",
        _reset_hint(reset=bool(resets)),
        until_ms=budget.resets_at_ms,
        facts=model.SpentBudget(budget.budget_id, dimension, used, limit, budget.resets_at_ms),
    )


def _reset_hint(*, reset: bool) -> str:
    wait = "wait for the reset, or " if reset else ""
    return f"{wait}reset_budget, or update_budget with a higher limit"


def _called(budget: model.Budget) -> str:
    ident = budget.budget_id
    return f"budget `{say.clipped(budget.name)}` ({ident})" if budget.name else f"budget {ident}"


def refused_report(looked: model.Looked) -> list[model.Reason]:
    """The budget that refused a usage report of the execution, then other spent budgets."""
    execution = looked.execution
    prefix, _, ident = (execution.blocked_on or "").rpartition(REFUSED)
    budget = next((each for each in looked.budgets if each.budget_id == ident), None)
    if prefix or not ident or budget is None:
        return []
    dimension = execution.blocking_detail.removeprefix(f"budget {ident}: ").rpartition(" ")[0]
    used, limit = budget.used.get(dimension, 0), budget.limits.get(dimension, 0)
    resets = say.coming(looked.now_ms, budget.resets_at_ms)
    until = f"resets{resets}, " if resets else ""
    spent = f"{used:,} of {limit:,} {say.clipped(dimension)} are used"
    own = model.Reason(
        model.Why.WAITING_FOR_BUDGET,
        f"{_called(budget)} refused its usage report: {spent}, and the report exceeds the rest; it "
        f"is blocked until the budget {until}is reset, has usage released, or gets other limits",
        _reset_hint(reset=bool(resets)),
        execution.last_transition_at,
        budget.resets_at_ms,
        model.SpentBudget(ident, dimension, used, limit, budget.resets_at_ms),
    )
    others = (r for r in spent_budgets(looked) if getattr(r.facts, "budget_id", "") != ident)
    return [own, *others]


def used_quota(looked: model.Looked) -> list[model.Reason]:
    quota = looked.quota
    if quota is None:
        return []
    now, window_s = looked.now_ms, quota.window_s or DEFAULT_WINDOW_S
    inside = sorted(at for at in quota.admitted_at_ms if at > now - window_s * 1_000)
    closed_until, rate, cap = quota.closed_until_ms, quota.most_in_window, quota.most_at_once
    if closed_until is not None and closed_until > now:
        says = f"is closed for another {say.span(closed_until - now)}"
        return [_quota(quota, "closed", len(inside), closed_until, says)]
    if rate and len(inside) >= rate:
        opens = inside[len(inside) - rate] + window_s * 1_000
        says = (
            f"has admitted its {rate:,} in {window_s:,} s; its window opens{say.coming(now, opens)}"
        )
        return [_quota(quota, "rate", len(inside), opens, says)]
    if cap and quota.held >= cap:
        says = f"allows {say.counted(cap, 'execution')} at once, and {quota.held:,} hold a slot"
        return [_quota(quota, "concurrency", quota.held, None, says)]
    return []


def _quota(
    quota: model.Quota, cause: str, used: int, opens_at_ms: int | None, says: str
) -> model.Reason:
    concurrency = cause == "concurrency"
    limit = quota.most_at_once if concurrency else quota.most_in_window
    window_s = quota.window_s or DEFAULT_WINDOW_S
    return model.Reason(
        model.Why.WAITING_FOR_QUOTA,
        f"quota {quota.quota_policy_id} {says}",
        "wait until one of them ends" if concurrency else "wait",
        until_ms=opens_at_ms,
        facts=model.UsedQuota(quota.quota_policy_id, cause, used, limit, window_s, opens_at_ms),
    )


def limit_reasons(
    looked: model.Looked, code: model.Why, what: str, found: Sequence[model.Reason]
) -> list[model.Reason]:
    """The limits that block the execution, or that they have capacity and it is unblocked soon."""
    if found:
        return list(found)
    detail = say.clipped(looked.execution.blocking_detail)
    was = f" (blocked by: {detail})" if detail else ""
    says = f"{what} has capacity again{was}; it is about to be unblocked"
    return [model.Reason(code, says, say.NOTHING_TO_DO, looked.execution.last_transition_at)]
