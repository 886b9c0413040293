"""Who may start: the room a quota has left, the budgets that are spent, and which of those waiting go to whom."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.errors import (
    Contention,
    ContentionKind,
    EngineError,
    StateError,
    StateKind,
)
from flowfabric.model.budget import limits_of
from flowfabric.model.quota import DEFAULT_DIMENSION, BudgetState, LimitState, QuotaPolicy
from flowfabric.plan import (
    Add,
    After,
    Among,
    AnyOf,
    Arg,
    Cond,
    Form,
    Now,
    Pick,
    Plan,
    Update,
    Upsert,
)
from flowfabric.rules.claims.claims import CLAIM, CLAIM_ONE, RECLAIM_SAME
from flowfabric.rules.claims.grants import BLOCK, ISSUE_GRANT
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot
from flowfabric.rules.leases.recovery import RECLAIM
from flowfabric.rules.limits import breach_actions, budgets

QUOTA, WINDOW = "ff_quota_policy", "ff_quota_window"
THIS_QUOTA = Cond("quota_policy_id", "=", Arg("quota_policy_id"))
UNCHANGED_QUOTA = (THIS_QUOTA, Cond("version", "=", Arg("version")))
COUNTED = Upsert(
    WINDOW,
    {
        "quota_policy_id": After("quota_policy_id"),
        "dimension": DEFAULT_DIMENSION,
        "admitted_at_ms": Now(),
        "execution_id": After("execution_id"),
    },
    {"dimension": DEFAULT_DIMENSION},
)
TOUCH_QUOTA = Form("touch_quota", Update(QUOTA, UNCHANGED_QUOTA, {"version": Add(1)}))


def _gated(name: str, *more: Upsert) -> Form:
    """A claim behind a gate: of rows found to fit, by their ids, so nothing is asked of them but that they are still free."""
    assert CLAIM.pick is not None
    free = (
        Cond("reserved_until_ms", "is null"),
        Cond("reserved_until_ms", "<", Now()),
        Cond("reserved_for", "=", Arg("holder")),
    )
    ready = (
        Cond("lifecycle_phase", "=", "runnable"),
        Cond("eligibility_state", "=", "eligible_now"),
    )
    where = (Among("execution_id", Arg("ids")), *ready, AnyOf(free), CLAIM.pick.where[-1])
    pick = Pick("executions", {"partition_key": Arg("partition_key")}, where=where)
    return Form(name, *CLAIM.steps, *more, *CLAIM.wakes, pick=pick, returning=CLAIM.returning)


CLAIM_GATED = _gated("claim_gated")
CLAIM_COUNTED = _gated("claim_counted", COUNTED)


def _counted(form: Form) -> Form:
    return Form(f"{form.name}_counted", *form.steps, COUNTED, *form.wakes, returning=form.returning)


ADMITTING = {form: _counted(form) for form in (CLAIM_ONE, RECLAIM_SAME, RECLAIM, ISSUE_GRANT)}
"""What lets a particular execution start, and the same with its entry in the window."""


# ---- a quota


class Room(Struct, frozen=True):
    """How many more a quota admits, None for any number. When none: why, and from when on that may be otherwise."""

    left: int | None = None
    why: str = ""
    opens_at_ms: int | None = None


ANY_NUMBER = Room()


def room(quota: QuotaPolicy | None, held: int, window: Sequence[int], now_ms: int) -> Room:
    """`window` are the times of admissions, ascending. One exactly a window old is gone."""
    if quota is None:
        return ANY_NUMBER
    if quota.closed_until_ms is not None and quota.closed_until_ms > now_ms:
        return Room(0, "closed", quota.closed_until_ms)
    rate, cap = quota.max_requests_per_window, quota.active_concurrency_cap
    left: list[int] = []
    if rate:
        counted = len(window) - bisect_right(window, now_ms - quota.window_ms)
        if counted >= rate:
            return Room(0, "rate", window[-rate] + quota.window_ms)
        left.append(rate - counted)
    if cap:
        if held >= cap:
            return Room(0, "concurrency")
        left.append(cap - held)
    return Room(min(left)) if left else ANY_NUMBER


def quota_detail(quota: QuotaPolicy, why: str) -> str:
    """What a person is told of a quota that admits nobody."""
    match why:
        case "closed":
            return f"quota {quota.quota_policy_id}: closed until {quota.closed_until_ms}"
        case "rate":
            rate = quota.max_requests_per_window
            return f"quota {quota.quota_policy_id}: rate limit {rate}/{rate} per {quota.window_ms // 1_000}s window"
    return f"quota {quota.quota_policy_id}: concurrency cap {quota.active_concurrency_cap}"


def no_room(quota: QuotaPolicy, found: Room, now_ms: int) -> Contention:
    facts = {"detail": quota_detail(quota, found.why)}
    if found.why == "concurrency":
        return Contention(ContentionKind.CONCURRENCY_LIMIT_EXCEEDED, **facts)
    assert found.opens_at_ms is not None
    return Contention(
        ContentionKind.RATE_LIMIT_EXCEEDED,
        **facts,
        retry_after_ms=str(max(found.opens_at_ms - now_ms, 0)),
    )


# ---- budgets


class Spent(Struct, frozen=True):
    budget_id: str
    dimension: str
    used: int
    limit: int

    @property
    def detail(self) -> str:
        return breach_actions.detail(self.budget_id, self.dimension, self.used, self.limit)


def spent(budget: BudgetState) -> Spent | None:
    """The first dimension by name that sits on its hard limit or above. A limit of 0 is none."""
    found = budgets.exhausted_dimension(limits_of(budget.policy_json), budget.usage)
    return None if found is None else Spent(budget.budget_id, *found)


# ---- one execution


def admitted(snapshot: Snapshot, decision: Decision) -> Decision:
    """The same decision, if the limits of the execution allow it. Who holds a place already is not asked again."""
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


def _refused(standing: LimitState, own: UUID, now_ms: int) -> EngineError | None:
    for budget in standing.budgets:
        found = spent(budget)
        if found is not None:
            return StateError(StateKind.BUDGET_EXCEEDED, found.detail)
    quota = standing.quota
    left = room(quota, len(holders(standing) - {own}), standing.window, now_ms)
    return no_room(quota, left, now_ms) if quota is not None and left.left == 0 else None


def holders(standing: LimitState) -> frozenset[UUID]:
    """Each once, however many reasons it has to hold a place."""
    return standing.leased | standing.reserved | standing.admitted


def touch(quota: QuotaPolicy) -> Plan:
    """Whoever admits does so under the version he counted at; of two at once, one counts again."""
    return TOUCH_QUOTA(quota_policy_id=quota.quota_policy_id, version=quota.version)


# ---- many requests for whatever waits


class Request(Struct, frozen=True):
    wanted: int
    capabilities: frozenset[str]
    worker_id: str


class Candidate(Struct, frozen=True, gc=False):
    """What is read of one that waits."""

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
    """What one request takes of one selection. `ids` are those of the whole selection; behind no gate there are none.

    `holder` is set where the rows are reserved for the one who asks: they hold their places already.
    """

    request: int
    gate: str
    count: int
    partition_key: int = 0
    ids: tuple[UUID, ...] = ()
    holder: str = ""


Selection = tuple[str, int, frozenset[str], str]
"""Rows behind one gate and in one partition, for workers of equal capabilities, reserved for one of them or for nobody."""


class Shared(Struct, frozen=True):
    """Selections side by side; who is held back by a budget; how much each request still wants; gates without room."""

    shares: list[Share]
    denied: list[tuple[Candidate, Spent]]
    unmet: list[int]
    full: set[str]


def in_ready_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: (-c.priority, c.created_at_ms, c.execution_id))


def share_out(
    requests: Sequence[Request],
    candidates: Iterable[Candidate],
    rooms: Mapping[str, int | None],
    over: Mapping[str, Spent],
    now_ms: int,
) -> Shared:
    """The best to the first who can take it: capability, then budgets, then the room behind its gate."""
    unmet = [request.wanted for request in requests]
    active = list(range(len(requests)))
    left = dict(rooms)
    taken: dict[Selection, dict[int, list[UUID]]] = {}
    denied: list[tuple[Candidate, Spent]] = []
    full: set[str] = set()
    for candidate in candidates:
        at = _taker(candidate, requests, active, now_ms)
        if at is None:
            if not active:
                break
            continue
        gate, holder = candidate.gate, _holder(candidate, now_ms)
        if not holder:  # a grant has been asked already, and holds its place
            breach = (
                next((over[b] for b in candidate.budget_ids if b in over), None) if over else None
            )
            if breach is not None:
                denied.append((candidate, breach))
                continue
            most = left.get(gate)
            if most == 0:
                full.add(gate)
                continue
            if most is not None:
                left[gate] = most - 1
        selection = (
            gate,
            candidate.partition_key if gate else 0,
            requests[at].capabilities,
            holder,
        )
        taken.setdefault(selection, {}).setdefault(at, []).append(candidate.execution_id)
        unmet[at] -= 1
        if not unmet[at]:
            active.remove(at)
    return Shared(_shares(taken), denied, unmet, full)


def _holder(candidate: Candidate, now_ms: int) -> str:
    """For whom it is reserved, as long as that holds."""
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
    """Requests of one selection follow each other, for rows are dealt out in turn."""
    shares = []
    for (gate, partition, _, holder), by_request in taken.items():
        ids = tuple(ident for several in by_request.values() for ident in several) if gate else ()
        shares += [
            Share(at, gate, len(several), partition, ids, holder)
            for at, several in by_request.items()
        ]
    return shares


def hold_back(candidate: Candidate, breach: Spent, now_ms: int) -> Plan:
    """It waits for its budget, so that it hides nobody."""
    return BLOCK["waiting_for_budget"](
        partition_key=candidate.partition_key,
        execution_id=candidate.execution_id,
        version=candidate.version,
        detail=breach.detail,
        blocked_on=breach_actions.blocked_on_budget(breach.budget_id),
        now=now_ms,
    )
