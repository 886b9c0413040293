"""The state transition summary as a table: every state, every operation, what becomes of it or why
not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.lease import AlreadySatisfied, Handle, RevokeLeaseArgs
from flowfabric.model.state import ExpirePhase
from flowfabric.rules.states import TRANSITIONS, VECTORS
from flowfabric.testing import ManualClock

from .helpers import LANE, TTL_MS, claim, create, dump, state, two_stores, worker

At = tuple[ExecutionId, Handle | None]


async def ready(engine: Engine, clock: ManualClock) -> At:
    return await create(engine, execution_deadline_at=clock() + 10**8), None


async def delayed(engine: Engine, clock: ManualClock) -> At:
    return await create(
        engine, execution_deadline_at=clock() + 10**8, delay_until=clock() + 10**7
    ), None


def blocked(reason: str) -> Callable[[Engine, ManualClock], Awaitable[At]]:
    async def make(engine: Engine, clock: ManualClock) -> At:
        ident, _ = await ready(engine, clock)
        await engine.block_route(ident, reason)
        return ident, None

    return make


async def running(engine: Engine, clock: ManualClock) -> At:
    ident, _ = await ready(engine, clock)
    return ident, await claim(engine)


async def lost(engine: Engine, clock: ManualClock) -> At:
    ident, handle = await running(engine, clock)
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    return ident, handle


async def revoked(engine: Engine, clock: ManualClock) -> At:
    """READY again, with a handle whose epoch has moved."""
    ident, handle = await running(engine, clock)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    return ident, handle


async def parked(engine: Engine, clock: ManualClock) -> At:
    """DELAYED by its holder, whose epoch is still the current one."""
    ident, handle = await running(engine, clock)
    assert handle is not None
    await engine.delay(handle, clock() + 10**7)
    return ident, handle


async def succeeded(engine: Engine, clock: ManualClock) -> At:
    ident, handle = await running(engine, clock)
    assert handle is not None
    await engine.complete(handle)
    return ident, handle


async def cancelled(engine: Engine, clock: ManualClock) -> At:
    ident, handle = await running(engine, clock)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    return ident, handle


FROM: dict[str, Callable[[Engine, ManualClock], Awaitable[At]]] = {
    "READY": ready,
    "READY, revoked": revoked,
    "DELAYED": delayed,
    "DELAYED by its holder": parked,
    "BUDGET": blocked("waiting_for_budget"),
    "QUOTA": blocked("waiting_for_quota"),
    "ROUTE": blocked("waiting_for_capable_worker"),
    "OPBLOCK": blocked("paused_by_operator"),
    "LANEBLOCK": blocked("paused_by_policy"),
    "RUNNING": running,
    "LOST": lost,
    "ENDED(success)": succeeded,
    "ENDED(cancelled)": cancelled,
}
NAMES = list(FROM)
C, X, F = "ENDED(cancelled)", "ENDED(expired)", "ENDED(failed)"
NOT_ACTIVE, CONFLICT, EXPIRED, STAYS = (
    "execution_not_active",
    "lease_conflict",
    "lease_expired",
    "=",
)
NONE, LIVE, UNMARKED = "no_active_lease", "execution_not_terminal", "not_active"
# operation -> one entry per state above: the state it leads to, "=" for untouched, or the word of
# the refusal or answer
TABLE: dict[str, tuple[str, ...]] = {
    "claim": ("RUNNING", "RUNNING", *(STAYS,) * 7, STAYS, STAYS, STAYS, STAYS),
    "complete": (
        "-",
        CONFLICT,
        "-",
        NOT_ACTIVE,
        *("-",) * 5,
        "ENDED(success)",
        EXPIRED,
        STAYS,
        CONFLICT,
    ),
    "fail": ("-", CONFLICT, "-", NOT_ACTIVE, *("-",) * 5, "DELAYED", EXPIRED, NOT_ACTIVE, CONFLICT),
    "fail for good": (
        "-",
        CONFLICT,
        "-",
        NOT_ACTIVE,
        *("-",) * 5,
        F,
        EXPIRED,
        NOT_ACTIVE,
        CONFLICT,
    ),
    "delay": (
        "-",
        CONFLICT,
        "-",
        NOT_ACTIVE,
        *("-",) * 5,
        "DELAYED",
        EXPIRED,
        NOT_ACTIVE,
        CONFLICT,
    ),
    "give up": ("-", CONFLICT, "-", NOT_ACTIVE, *("-",) * 5, C, EXPIRED, NOT_ACTIVE, STAYS),
    "cancel": (*(C,) * 11, "invalid_input", STAYS),
    "revoke": (*(NONE,) * 9, "READY", "already_expired", NONE, NONE),
    "expire": (*(X,) * 11, STAYS, STAYS),
    "replay": (*(LIVE,) * 11, "READY", "READY"),
    "mark expired": (*(UNMARKED,) * 9, "not_yet_expired", "already_expired", UNMARKED, UNMARKED),
}


async def act(
    engine: Engine, clock: ManualClock, op: str, ident: ExecutionId, handle: Handle | None
) -> Any:
    match op:
        case "claim":
            return await engine.claim(LANE, (), worker(2))
        case "cancel":
            return await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
        case "revoke":
            return await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
        case "expire":
            return await engine.expire_execution(
                ident, ExpirePhase.EXECUTION_DEADLINE, now=clock() + 10**9
            )
        case "replay":
            return await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
        case "mark expired":
            return await engine.mark_lease_expired_if_due(ident)
    assert handle is not None
    match op:
        case "complete":
            return await engine.complete(handle)
        case "fail":
            return await engine.fail(handle, "boom")
        case "fail for good":
            return await engine.fail(handle, "boom", FailureClass.PERMANENT)
        case "delay":
            return await engine.delay(handle, clock() + 5)
    return await engine.cancel(handle)


CELLS = [
    (op, at, cell)
    for op, cells in TABLE.items()
    for at, cell in zip(NAMES, cells, strict=True)
    if cell != "-"
]


@two_stores
@pytest.mark.parametrize(
    ("op", "at", "leads_to"), CELLS, ids=[f"{op} / {at}" for op, at, _ in CELLS]
)
async def test_from_each_state_each_operation_leads_where_the_table_says(
    engine: Engine, clock: ManualClock, op: str, at: str, leads_to: str
) -> None:
    ident, handle = await FROM[at](engine, clock)
    assert await state(engine, ident) == at.split(",")[0].split(" by ")[0]
    before = await dump(engine)
    try:
        answer = await act(engine, clock, op, ident, handle)
    except EngineError as error:
        answer = AlreadySatisfied(error.code)
    if isinstance(answer, AlreadySatisfied):
        assert answer.reason == leads_to
        leads_to = STAYS
    if leads_to == STAYS:
        assert await dump(engine) == before
    else:
        assert await state(engine, ident) == leads_to


def test_the_table_mentions_every_vector_this_engine_can_enter() -> None:
    made_elsewhere = {"DEPS", "SUSPENDED"}
    assert {n.split(",")[0].split(" by ")[0].split("(")[0] for n in NAMES} == set(
        VECTORS
    ) - made_elsewhere


def test_every_declared_transition_joins_two_vectors() -> None:
    for source, how, target in TRANSITIONS:
        assert source in ("", *VECTORS) and target in VECTORS and how
