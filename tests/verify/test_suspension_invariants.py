"""Checks of suspensions: a valid snapshot passes, planted violations are caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.waitpoint import (
    BoundWaitpoint,
    DeliverSignalArgs,
    FreshWaitpoint,
    Single,
    SuspendArgs,
    Suspended,
    TimeoutBehavior,
)
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

NAMES = ("waits", "resumed", "goes on", "timed", "cancelled", "ahead")
IDS = {name: ExecutionId.of(1, UUID(int=at + 1)) for at, name in enumerate(NAMES)}
CORE, SUSPENSION, WAITPOINT, SIGNAL = (
    "ff_exec_core",
    "ff_suspension_current",
    "ff_waitpoint_pending",
    "ff_signal",
)
Tables = dict[str, list[Any]]
Plant = Callable[[Tables], None]


async def park(engine: Engine, name: str, **said: Any) -> BoundWaitpoint:
    handle = await engine.claim(name, (), ClaimPolicy("w", "w-1"))
    assert handle is not None
    mailbox = FreshWaitpoint(UUID(int=100 + NAMES.index(name)), "k")
    suspension = UUID(int=200 + NAMES.index(name))
    done = await engine.suspend(
        handle,
        SuspendArgs(
            suspension_id=suspension,
            waitpoints=[mailbox],
            resume_condition=Single("k", "go"),
            **said,
        ),
    )
    assert isinstance(done, Suspended)
    return done.details.waitpoints[0]


async def send(engine: Engine, name: str, to: BoundWaitpoint, word: str, number: int) -> None:
    args = DeliverSignalArgs(
        execution_id=IDS[name],
        waitpoint_id=to.waitpoint_id,
        signal_id=UUID(int=300 + number),
        waitpoint_token=to.waitpoint_token,
        signal_name=word,
    )
    await engine.deliver_signal(args)


async def sound() -> Tables:
    """One of each: waiting, resumed, running again, timed out, cancelled, and one with a mailbox
    made ahead.
    """
    clock = ManualClock()
    engine = Engine(MemoryStore(clock), seed=1)
    await engine.seed_waitpoint_hmac_secret("k1", "2a" * 32)
    for name, ident in IDS.items():
        await engine.create_execution(CreateExecutionArgs(execution_id=ident, lane_id=name))
    await send(engine, "waits", await park(engine, "waits"), "other", 0)
    await send(engine, "resumed", await park(engine, "resumed"), "go", 1)
    await send(engine, "goes on", await park(engine, "goes on"), "go", 2)
    assert await engine.claim("goes on", (), ClaimPolicy("w", "w-2")) is not None
    await park(
        engine, "timed", timeout_at=clock() + 1, timeout_behavior=TimeoutBehavior.AUTO_RESUME
    )
    clock.advance(1)
    assert await engine.expire_suspension(IDS["timed"]) == "auto_resumed"
    await park(engine, "cancelled")
    await engine.cancel_execution(CancelExecutionArgs(execution_id=IDS["cancelled"]))
    handle = await engine.claim("ahead", (), ClaimPolicy("w", "w-1"))
    assert handle is not None
    await engine.create_waitpoint(handle, "k")
    return await engine.store.dump(TABLES_READ)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return asyncio.run(sound())


def alter(table: str, name: str, where: dict[str, Any] | None = None, **changes: Any) -> Plant:
    def plant(tables: Tables) -> None:
        names, found = TABLES[table].names, 0
        for at, row in enumerate(tables[table]):
            named = dict(zip(names, row, strict=True))
            wanted = {"execution_id": IDS[name].uuid, **(where or {})}
            if all(named[column] == value for column, value in wanted.items()):
                tables[table][at] = tuple({**named, **changes}.values())
                found += 1
        assert found, (table, name)

    return plant


def drop(table: str, name: str) -> Plant:
    def plant(tables: Tables) -> None:
        at = TABLES[table].names.index("execution_id")
        kept = [row for row in tables[table] if row[at] != IDS[name].uuid]
        assert len(kept) < len(tables[table])
        tables[table][:] = kept

    return plant


def twice(table: str, name: str, **changes: Any) -> Plant:
    """A second row like the one that is there."""

    def plant(tables: Tables) -> None:
        names = TABLES[table].names
        (row,) = (r for r in tables[table] if r[names.index("execution_id")] == IDS[name].uuid)
        tables[table].append(tuple({**dict(zip(names, row, strict=True)), **changes}.values()))

    return plant


RESUMED = {"closed_at_ms": 5, "close_reason": "resumed"}
OPEN: dict[str, Any] = {"closed_at_ms": None, "close_reason": None}
PLANTED: dict[str, tuple[Plant, str]] = {
    "suspended without a suspension": (drop(SUSPENSION, "waits"), "none open"),
    "suspended and closed": (alter(SUSPENSION, "waits", **RESUMED), "none open"),
    "open though resumed": (alter(SUSPENSION, "resumed", **OPEN), "its suspension: open"),
    "open though cancelled": (alter(SUSPENSION, "cancelled", **OPEN), "its suspension: open"),
    "open though running": (alter(SUSPENSION, "goes on", **OPEN), "its suspension: open"),
    "another suspension": (
        alter(CORE, "waits", current_suspension_id=UUID(int=9)),
        "not the open one",
    ),
    "still names one": (
        alter(CORE, "resumed", current_suspension_id=UUID(int=201)),
        "not the open one",
    ),
    "closed without a reason": (alter(SUSPENSION, "resumed", close_reason=None), "for reason None"),
    "active after the end": (
        alter(WAITPOINT, "resumed", state="active", satisfied_at_ms=None, **OPEN),
        "is not open",
    ),
    "active of another": (alter(WAITPOINT, "waits", suspension_id=UUID(int=9)), "is not open"),
    "active of nobody": (alter(WAITPOINT, "ahead", state="active"), "is not open"),
    "pending and bound": (
        alter(WAITPOINT, "ahead", suspension_id=UUID(int=9)),
        "bound to a suspension",
    ),
    "no such state": (alter(WAITPOINT, "waits", state="asleep"), "in an unknown state"),
    "closed without a time": (alter(WAITPOINT, "resumed", closed_at_ms=None), "closed at None"),
    "open with a reason": (
        alter(WAITPOINT, "waits", close_reason="resumed"),
        "is active, closed at",
    ),
    "satisfied otherwise": (
        alter(WAITPOINT, "cancelled", satisfied_at_ms=1),
        "satisfied, but closed for 'cancelled'",
    ),
    "matched what never came": (
        alter(WAITPOINT, "waits", matched_signal_count=7),
        "matched more signals",
    ),
    "resolved twice": (twice(SIGNAL, "resumed", signal_id=UUID(int=9)), "ended by 2 signals"),
    "timed out twice": (twice(SIGNAL, "timed", signal_id=UUID(int=9)), "ended by 2 signals"),
    "told twice": (twice("ff_completion_event", "resumed", event_id=99), "2 completion events"),
    "never told": (drop("ff_completion_event", "resumed"), "0 completion events"),
    "a lost signal": (drop(SIGNAL, "waits"), "1 accepted signals are missing"),
    "a lost satisfier": (drop(SIGNAL, "goes on"), "counts signals that are missing"),
    "on no waitpoint": (alter(SIGNAL, "waits", waitpoint_id=UUID(int=9)), "on no waitpoint"),
    "epoch not raised": (alter(CORE, "waits", lease_epoch=1), "recorded changes give 2 to 2"),
    "epoch raised twice": (alter(CORE, "resumed", lease_epoch=3), "recorded changes give 2 to 2"),
    "revoked at a strange epoch": (
        alter("ff_lease_event", "waits", {"event_type": "revoked"}, lease_epoch=7),
        "revoked at epoch 7",
    ),
    "suspended without letting go": (
        alter("ff_lease_event", "waits", {"event_type": "revoked"}, event_type="renewed"),
        "recorded changes give 1 to 1",
    ),
    "no owner": (drop(CORE, "waits"), "waitpoint without an execution"),
    "another namespace": (
        alter("ff_signal_event", "waits", namespace="other"),
        "has namespace 'other'",
    ),
}


def test_a_valid_snapshot_passes(tables: Tables) -> None:
    assert [str(violation) for violation in check(snapshot_of(tables))] == []


@pytest.mark.parametrize(("plant", "says"), PLANTED.values(), ids=PLANTED.keys())
def test_planted_violations_are_caught(tables: Tables, plant: Plant, says: str) -> None:
    altered = deepcopy(tables)
    plant(altered)
    found = "\n".join(violation.says for violation in check(snapshot_of(altered)))
    assert says in found, found
