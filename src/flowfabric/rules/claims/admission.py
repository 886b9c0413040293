"""Admission: the capacity of quotas, spent budgets, and which claim gets which execution."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric import errors
from flowfabric import plan as p
from flowfabric.model.budget import limits_of
from flowfabric.model.quota import DEFAULT_DIMENSION, BudgetState, LimitState, QuotaPolicy
from flowfabric.rules.claims.claims import CLAIM, CLAIM_ONE, RECLAIM_SAME
from flowfabric.rules.claims.grants import BLOCK, ISSUE_GRANT
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot
from flowfabric.rules.leases.reclaim import RECLAIM
from flowfabric.rules.limits import breach_actions, budgets

QUOTA, WINDOW = "ff_quota_policy", "ff_quota_window"
THIS_QUOTA = p.Cond("quota_policy_id", "=", p.Arg("quota_policy_id"))
UNCHANGED_QUOTA = (THIS_QUOTA, p.Cond("version", "=", p.Arg("version")))
COUNTED = p.Upsert(
    WINDOW,
    {
        "quota_policy_id": p.After("quota_policy_id"),
        "dimension": DEFAULT_DIMENSION,
        "admitted_at_ms": p.Now(),
        "execution_id": p.After("execution_id"),
    },
    {"dimension": DEFAULT_DIMENSION},
)
TOUCH_QUOTA = p.Form("touch_quota", p.Update(QUOTA, UNCHANGED_QUOTA, {"version": p.Add(1)}))


def _gated(name: str, *more: p.Upsert) -> p.Form:
    """A claim of rows that were chosen by id. The guards check that they are still free."""
    assert CLAIM.pick is not None
    free = (
        p.Cond("reserved_until_ms", "is null"),
        p.Cond("reserved_until_ms", "<", p.Now()),
        p.Cond("reserved_for", "=", p.Arg("holder")),
    )
    ready = (
        p.Cond("lifecycle_phase", "=", "runnable"),
        p.Cond("eligibility_state", "=", "eligible_now"),
    )
    where = (p.Among("execution_id", p.Arg("ids")), *ready, p.AnyOf(free), CLAIM.pick.where[-1])
    pick = p.Pick("executions", {"partition_key": p.Arg("partition_key")}, where=where)
    return p.Form(name, *CLAIM.steps, *more, *CLAIM.wakes, pick=pick, returning=CLAIM.returning)


CLAIM_GATED = _gated("claim_gated")
CLAIM_COUNTED = _gated("claim_counted", COUNTED)


def _counted(form: p.Form) -> p.Form:
    return p.Form(
        f"{form.name}_counted", *form.steps, COUNTED, *form.wakes, returning=form.returning
    )


ADMITTING = {form: _counted(form) for form in (CLAIM_ONE, RECLAIM_SAME, RECLAIM, ISSUE_GRANT)}
"""Forms that start a particular execution, and the same with an entry in the quota's window."""


class Capacity(Struct, frozen=True):
    """How many more executions a quota admits; None is unlimited. At 0: why, and until when."""

    left: int | None = None
    why: str = ""
    opens_at_ms: int | None = None


UNLIMITED = Capacity()


def capacity_of(
    quota: QuotaPolicy | None, held: int, window: Sequence[int], now_ms: int
) -> Capacity:
    """`window` holds the times of admissions, ascending. One exactly a window old has left it."""
    if quota is None:
        return UNLIMITED
    if quota.closed_until_ms is not None and quota.closed_until_ms > now_ms:
        return Capacity(0, "closed", quota.closed_until_ms)
    rate, cap = quota.max_requests_per_window, quota.active_concurrency_cap
    left: list[int] = []
    if rate:
        counted = len(window) - bisect_right(window, now_ms - quota.window_ms)
        if counted >= rate:
            return Capacity(0, "rate", window[-rate] + quota.window_ms)
        left.append(rate - counted)
    if cap:
        if held >= cap:
            return Capacity(0, "concurrency")
        left.append(cap - held)
    return Capacity(min(left)) if left else UNLIMITED


def quota_detail(quota: QuotaPolicy, why: str) -> str:
    """The text for users about a quota that admits nothing."""
    match why:
        case "closed":
            return f"quota {quota.quota_policy_id}: closed until {quota.closed_until_ms}"
        case "rate":
            rate = quota.max_requests_per_window
            window = f"{quota.window_ms // 1_000}s window"
            return f"quota {quota.quota_policy_id}: rate limit {rate}/{rate} per {window}"
    return f"quota {quota.quota_policy_id}: concurrency cap {quota.active_concurrency_cap}"


def limit_error(quota: QuotaPolicy, found: Capacity, now_ms: int) -> errors.Contention:
    facts = {"detail": quota_detail(quota, found.why)}
    if found.why == "concurrency":
        return errors.Contention(errors.ContentionKind.CONCURRENCY_LIMIT_EXCEEDED, **facts)
    assert found.opens_at_ms is not None
    return errors.Contention(
        errors.ContentionKind.RATE_LIMIT_EXCEEDED,
        **facts,
        retry_after_ms=str(max(found.opens_at_ms - now_ms, 0)),
    )


class Breach(Struct, frozen=True):
    budget_id: str
    dimension: str
    used: int
    limit: int

    @property
    def detail(self) -> str:
        return breach_actions.detail(self.budget_id, self.dimension, self.used, self.limit)


def breach_of(budget: BudgetState) -> Breach | None:
    """The first dimension by name that has reached its hard limit. A limit of 0 is no limit."""
    found = budgets.exhausted_dimension(limits_of(budget.policy_json), budget.usage)
    return None if found is None else Breach(budget.budget_id, *found)


def admitted(snapshot: Snapshot, decision: Decision) -> Decision:
    """The decision, if the limits allow it. Holders of a slot or a reservation are admitted."""
    standing, execution = snapshot.standing, snapshot.execution
    if standing is None or not isinstance(decision, Commit) or decision.plan.form not in ADMITTING:
        return decision
    assert execution is not None
    own, until = execution.execution_id, execution.reserved_until_ms
    if own in standing.admitted or (until is not None and until >= snapshot.now_ms):
        return decision
    refused = _refused(standing, own, snapshot.now_ms)
    if refused is not None:
        return Reject(refused)
    quota = standing.quota
    if quota is None:
        return decision
    plan = decision.plan
    if quota.max_requests_per_window:
        plan = structs.replace(plan, form=ADMITTING[plan.form])
    return structs.replace(decision, plan=plan, first=(*decision.first, touch(quota)))


def _refused(standing: LimitState, own: UUID, now_ms: int) -> errors.EngineError | None:
    for budget in standing.budgets:
        found = breach_of(budget)
        if found is not None:
            return errors.StateError(errors.StateKind.BUDGET_EXCEEDED, found.detail)
    quota = standing.quota
    left = capacity_of(quota, len(slot_holders(standing) - {own}), standing.window, now_ms)
    return limit_error(quota, left, now_ms) if quota is not None and left.left == 0 else None


def slot_holders(standing: LimitState) -> frozenset[UUID]:
    """The executions that hold a slot, each once."""
    return standing.leased | standing.reserved | standing.admitted


def touch(quota: QuotaPolicy) -> p.Plan:
    """Bumps the version the holders were counted at. Of two admissions at once, one is refused."""
    return TOUCH_QUOTA(quota_policy_id=quota.quota_policy_id, version=quota.version)


class Request(Struct, frozen=True):
    wanted: int
    capabilities: frozenset[str]
    worker_id: str


class Candidate(Struct, frozen=True, gc=False):
    """The columns of a waiting execution that decide who claims it."""

    partition_key: int
    execution_id: UUID
    version: int
    gate: str
    priority: int
    created_at_ms: int
    required_capabilities: tuple[str, ...]
    budget_ids: tuple[str, ...]
    reserved_for: str | None
    reserved_until_ms: int | None


class Share(Struct, frozen=True):
    """The part of one selection that one request claims.

    `ids` are those of the whole selection; without a gate there are none. `holder` is set for
    rows that are reserved for the requesting worker: they hold their slots already.
    """

    request: int
    gate: str
    count: int
    partition_key: int = 0
    ids: tuple[UUID, ...] = ()
    holder: str = ""


Selection = tuple[str, int, frozenset[str], str]
"""Gate, partition, capabilities of the workers, and the worker the rows are reserved for."""


class Distribution(Struct, frozen=True):
    """`denied` wait for a budget, `unmet` is what each request still wants, `full` are gates."""

    shares: list[Share]
    denied: list[tuple[Candidate, Breach]]
    unmet: list[int]
    full: set[str]


def queue_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: (-c.priority, c.created_at_ms, c.execution_id))


def distribute(
    requests: Sequence[Request],
    candidates: Iterable[Candidate],
    rooms: Mapping[str, int | None],
    over: Mapping[str, Breach],
    now_ms: int,
) -> Distribution:
    """Gives each execution to the first able request, if its budgets and then its gate allow it."""
    unmet = [request.wanted for request in requests]
    active = list(range(len(requests)))
    left = dict(rooms)
    taken: dict[Selection, dict[int, list[UUID]]] = {}
    denied: list[tuple[Candidate, Breach]] = []
    full: set[str] = set()
    for candidate in candidates:
        if not active:
            break
        at = _taker(candidate, requests, active, now_ms)
        if at is None:
            continue
        gate, holder = candidate.gate, _holder(candidate, now_ms)
        if not holder:  # a grant was admitted when it was issued, and holds its slot
            breach = _first_breach(candidate, over) if over else None
            if breach is not None:
                denied.append((candidate, breach))
                continue
            most = left.get(gate)
            if most == 0:
                full.add(gate)
                continue
            if most is not None:
                left[gate] = most - 1
        partition = candidate.partition_key if gate else 0
        selection = (gate, partition, requests[at].capabilities, holder)
        taken.setdefault(selection, {}).setdefault(at, []).append(candidate.execution_id)
        unmet[at] -= 1
        if not unmet[at]:
            active.remove(at)
    return Distribution(_shares(taken), denied, unmet, full)


def _first_breach(candidate: Candidate, over: Mapping[str, Breach]) -> Breach | None:
    return next((over[b] for b in candidate.budget_ids if b in over), None)


def _holder(candidate: Candidate, now_ms: int) -> str:
    """The worker for which the execution is reserved, if any."""
    until = candidate.reserved_until_ms
    return "" if until is None or until < now_ms else candidate.reserved_for or ""


def _taker(
    candidate: Candidate, requests: Sequence[Request], active: list[int], now_ms: int
) -> int | None:
    needed, holder = candidate.required_capabilities, _holder(candidate, now_ms)
    for at in active:
        request = requests[at]
        if (not holder or holder == request.worker_id) and (
            not needed or request.capabilities.issuperset(needed)
        ):
            return at
    return None


def _shares(taken: Mapping[Selection, Mapping[int, list[UUID]]]) -> list[Share]:
    """The requests of one selection are adjacent, because its rows are split in their order."""
    shares = []
    for (gate, partition, _, holder), by_request in taken.items():
        ids = tuple(ident for several in by_request.values() for ident in several) if gate else ()
        shares += [
            Share(at, gate, len(several), partition, ids, holder)
            for at, several in by_request.items()
        ]
    return shares


def block_for_budget(candidate: Candidate, breach: Breach, now_ms: int) -> p.Plan:
    """Blocks the execution, so that it does not hide others in its queue."""
    blocked_on = breach_actions.blocked_on_budget(breach.budget_id)
    return BLOCK["waiting_for_budget"].of(candidate, breach, blocked_on=blocked_on, now=now_ms)
