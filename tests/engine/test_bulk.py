"""Bulk actions: what each action does to an execution in each state, and what it counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.bulk import BulkAction
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.state import ExpirePhase
from flowfabric.testing import ManualClock

from .bulk_helpers import asked, done, operations, sound
from .flow_helpers import submit
from .helpers import completed, create, dump, lost, running, state, stored
from .suspend_helpers import KID, SECRET, park_held

HOUR_MS = 3_600_000
Maker = Callable[[Engine, ManualClock], Awaitable[ExecutionId]]


async def _waiting(engine: Engine, clock: ManualClock) -> ExecutionId:
    return await create(engine)


async def _delayed(engine: Engine, clock: ManualClock) -> ExecutionId:
    return await create(engine, delay_until=clock() + HOUR_MS)


async def _blocked(reason: str, engine: Engine) -> ExecutionId:
    ident = await create(engine)
    await engine.block_route(ident, reason)
    return ident


async def _active(engine: Engine, clock: ManualClock) -> ExecutionId:
    return (await running(engine))[0]


async def _lost(engine: Engine, clock: ManualClock) -> ExecutionId:
    return (await lost(engine, clock))[0]


async def _suspended(engine: Engine, clock: ManualClock) -> ExecutionId:
    await engine.seed_waitpoint_hmac_secret(KID, SECRET)
    ident, handle = await running(engine)
    await park_held(engine, ident, handle)
    return ident


async def _dependent(engine: Engine, clock: ManualClock) -> ExecutionId:
    return (await submit(engine, "first>second"))["second"]


async def _completed(engine: Engine, clock: ManualClock) -> ExecutionId:
    return (await completed(engine))[0]


async def _failed(engine: Engine, clock: ManualClock) -> ExecutionId:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom", FailureClass.PERMANENT)
    return ident


async def _cancelled(engine: Engine, clock: ManualClock) -> ExecutionId:
    ident = await create(engine)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    return ident


async def _expired(engine: Engine, clock: ManualClock) -> ExecutionId:
    ident = await create(engine, execution_deadline_at=clock() + 1)
    clock.advance(1)
    await engine.expire_execution(ident, ExpirePhase.EXECUTION_DEADLINE)
    return ident


MAKERS: dict[str, Maker] = {
    "waiting": _waiting,
    "delayed": _delayed,
    "budget": lambda engine, _: _blocked("waiting_for_budget", engine),
    "quota": lambda engine, _: _blocked("waiting_for_quota", engine),
    "route": lambda engine, _: _blocked("waiting_for_capable_worker", engine),
    "held": lambda engine, _: _blocked("paused_by_operator", engine),
    "lane held": lambda engine, _: _blocked("paused_by_policy", engine),
    "active": _active,
    "lost": _lost,
    "suspended": _suspended,
    "dependent": _dependent,
    "completed": _completed,
    "failed": _failed,
    "cancelled": _cancelled,
    "expired": _expired,
}
UNFINISHED = tuple(MAKERS)[:11]
ENDED = tuple(MAKERS)[11:]
GONE = "gone"
ACTIONS = [action for action in BulkAction if action is not BulkAction.ERASE]
VALUES = {"priority": {"priority": 7}, "move": {"lane": "other"}}
SAME, REFUSED = "same", "refused"
AFTER: dict[str, dict[str, str]] = {
    "cancel": dict.fromkeys(UNFINISHED, "ENDED(cancelled)"),
    "retry": dict.fromkeys(("failed", "expired"), "READY"),
    "replay": dict.fromkeys(ENDED, "READY"),
    "delete": dict.fromkeys(ENDED, GONE),
    "priority": {
        "waiting": "READY",
        **dict.fromkeys(("route", "held", "lane held"), REFUSED),
    },
    "move": {
        **dict.fromkeys(("waiting", "budget", "quota", "route"), "READY"),
        "delayed": "DELAYED",
        "held": "OPBLOCK",
        "lane held": "LANEBLOCK",
        "suspended": "SUSPENDED",
        "dependent": "DEPS",
    },
    "release": dict.fromkeys(("delayed", "held", "lane held"), "READY"),
}
"""The state after an action, of those that it matches."""
EVENTS = {
    "cancel": "cancelled",
    "retry": "replayed",
    "replay": "replayed",
    "priority": "priority_changed",
    "move": "moved",
    "release": "released",
}


async def _seen(engine: Engine, ident: ExecutionId) -> str:
    return GONE if await stored(engine, ident) is None else await state(engine, ident)


@pytest.mark.parametrize("start", MAKERS)
@pytest.mark.parametrize("action", ACTIONS)
async def test_each_action_on_each_state(
    engine: Engine, clock: ManualClock, action: str, start: str
) -> None:
    ident = await MAKERS[start](engine, clock)
    before = await _seen(engine, ident)
    expected = AFTER[action].get(start, SAME)
    job = await done(engine, asked(action, where={"flow": None}, **VALUES.get(action, {})))
    about = [each for each in await operations(engine, ident) if "job" in each[1]]
    if expected in (SAME, REFUSED):
        assert await _seen(engine, ident) == before
        assert about == []
        assert job.refused == (expected == REFUSED)
    else:
        assert await _seen(engine, ident) == expected
        assert job.changed >= 1
        if expected != GONE:
            ((kind, details),) = about
            asked_by = {"by": "ada", "reason": "because", "job": str(job.job_id)}
            assert kind == EVENTS[action]
            assert details.items() >= asked_by.items()
    assert job.matched == job.changed + job.skipped + job.refused
    await sound(engine)


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_dry_run_counts_and_changes_nothing(
    engine: Engine, clock: ManualClock, action: str
) -> None:
    for start in ("completed", "failed", "delayed", "waiting"):
        await MAKERS[start](engine, clock)
    before = await dump(engine)
    args = asked(action, dry_run=True, **VALUES.get(action, {}))
    job = await done(engine, args)
    after = await dump(engine)
    for table in ("ff_bulk_job", "ff_lane_registry"):  # the job, and the lane that a move names
        del before[table], after[table]
    assert after == before
    assert (job.changed, job.refused) == (0, 0)
    real = await done(engine, asked(action, **VALUES.get(action, {})))
    assert real.changed == job.matched - job.skipped
