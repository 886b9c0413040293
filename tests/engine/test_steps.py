"""Steps of a task on every store: kept under the lease, once, and read back in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import Engine
from flowfabric.errors import Conflict, ContentionKind, NotFound, ResourceExhausted, StateKind
from flowfabric.model.step import MAX_STEP_BYTES, MAX_STEPS
from flowfabric.testing import ManualClock

from .helpers import create, forged, invalid, new_id, refused, running


async def test_steps_are_read_back_in_order(engine: Engine) -> None:
    ident, handle = await running(engine)
    for position, name in ((1, "test"), (0, "build"), (2, "ship")):
        await engine.record_step(handle, position, name, name.encode())
    found = await engine.read_steps(ident)
    assert [(step.position, step.name, step.kind, step.value) for step in found] == [
        (0, "build", "step", b"build"),
        (1, "test", "step", b"test"),
        (2, "ship", "step", b"ship"),
    ]
    assert await engine.read_steps(await create(engine)) == []


async def test_recorded_again_the_first_stands(engine: Engine, clock: ManualClock) -> None:
    _, handle = await running(engine)
    first = await engine.record_step(handle, 0, "build", b"first")
    clock.advance(5)
    assert await engine.record_step(handle, 0, "build", b"second") == first
    with pytest.raises(Conflict, match="already step 'build', not sleep 'build'"):
        await engine.record_step(handle, 0, "build", None, "sleep")


async def test_two_at_once_agree(engine: Engine) -> None:
    ident, handle = await running(engine)
    found = await asyncio.gather(
        *(engine.record_step(handle, 0, "build", value) for value in (b"1", b"2", b"3"))
    )
    assert len({step.value for step in found}) == 1
    assert [step.value for step in await engine.read_steps(ident)] == [found[0].value]


async def test_without_the_lease_nothing_is_kept(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await refused(
        engine.record_step(forged(handle, lease_epoch=9), 0, "build"), ContentionKind.LEASE_CONFLICT
    )
    clock.advance(3_600_000)
    await refused(engine.record_step(handle, 0, "build"), StateKind.LEASE_EXPIRED)
    assert await engine.read_steps(ident) == []


async def test_after_the_end_nothing_is_kept(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.complete(handle)
    await refused(engine.record_step(handle, 0, "build"), ContentionKind.EXECUTION_NOT_ACTIVE)
    assert await engine.read_steps(ident) == []


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"position": -1}, "position"),
        ({"position": "1"}, "position"),
        ({"name": "x" * 257}, "name"),
        ({"name": 5}, "name"),
        ({"kind": ""}, "kind"),
        ({"value": "text"}, "value"),
        ({"value": bytes(MAX_STEP_BYTES + 1)}, "value"),
    ],
)
async def test_bad_steps_name_the_field(engine: Engine, bad: dict[str, Any], field: str) -> None:
    _, handle = await running(engine)
    await invalid(engine.record_step(handle, **{"position": 0, "name": "build", **bad}), field)


async def test_there_are_only_so_many(engine: Engine) -> None:
    _, handle = await running(engine)
    with pytest.raises(ResourceExhausted):
        await engine.record_step(handle, MAX_STEPS, "one too many")
    await engine.record_step(handle, MAX_STEPS - 1, "the last", bytes(MAX_STEP_BYTES))


async def test_an_outcome_names_the_end(engine: Engine) -> None:
    ident, handle = await running(engine)
    before = await engine.read_outcome(ident)
    assert before is not None and (before.public_state, before.ended) == ("active", False)
    await engine.complete(handle, b"42")
    after = await engine.read_outcome(ident)
    assert after is not None and (after.public_state, after.ended, after.result) == (
        "completed",
        True,
        b"42",
    )
    assert await engine.read_outcome(new_id()) is None
    assert await engine.read_last_suspension(ident) is None
    assert await engine.read_resume_signals(ident) == []
    with pytest.raises(NotFound):
        await engine.tail_stream(new_id(), 0)


async def test_the_bell_rings_for_work_in_any_of_its_lanes(engine: Engine) -> None:
    with await engine.work_bell("one", "default") as bell:
        bell.arm()
        waiting = asyncio.create_task(bell.wait(10))
        await asyncio.sleep(0)
        await create(engine)
        assert await waiting
