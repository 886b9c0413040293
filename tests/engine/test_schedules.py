"""How far schedules have got, on every store."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from flowfabric import Engine, EngineError
from flowfabric.testing import ManualClock


async def test_a_schedule_begins_once_and_moves_from_where_it_was_seen(
    engine: Engine, clock: ManualClock
) -> None:
    began = clock()
    await engine.begin_schedule("ns", "nightly")
    clock.advance(1_000)
    await engine.begin_schedule("ns", "nightly")
    await engine.begin_schedule("other", "nightly")
    found = await engine.read_schedules("ns")
    mark = found.marks["nightly"]
    assert (list(found.marks), found.now_ms, mark.cursor_ms, mark.paused) == (
        ["nightly"],
        began + 1_000,
        began,
        False,
    )
    moved = await asyncio.gather(*(engine.move_schedule(mark, began + step) for step in (500, 600)))
    assert sorted(moved) == [False, True]
    assert (await engine.read_schedules("ns")).marks["nightly"].cursor_ms in (
        began + 500,
        began + 600,
    )
    assert (await engine.read_schedules("other")).marks["nightly"].cursor_ms == began + 1_000


async def test_a_paused_schedule_continues_from_its_resumption(
    engine: Engine, clock: ManualClock
) -> None:
    began = clock()
    assert [await engine.pause_schedule("ns", "s") for _ in range(2)] == [True, False]
    mark = (await engine.read_schedules("ns")).marks["s"]
    assert (mark.paused, mark.cursor_ms) == (True, began)
    clock.advance(1_000)
    assert [await engine.resume_schedule("ns", "s") for _ in range(2)] == [True, False]
    mark = (await engine.read_schedules("ns")).marks["s"]
    assert (mark.paused, mark.cursor_ms) == (False, began + 1_000)


async def test_names_and_times_are_checked(engine: Engine, clock: ManualClock) -> None:
    await engine.begin_schedule("ns", "s")
    mark = (await engine.read_schedules("ns")).marks["s"]
    for call in (
        engine.begin_schedule("", "s"),
        engine.begin_schedule("ns", ""),
        engine.read_schedules(""),
        engine.move_schedule(mark, -1),
        engine.move_schedule(structs.replace(mark, cursor_ms=2**63), 1),
        engine.move_schedule(structs.replace(mark, cursor_ms=-1), 1),
        engine.move_schedule(structs.replace(mark, namespace=""), 1),
        engine.move_schedule(structs.replace(mark, name="\0"), 1),
        engine.pause_schedule("ns", "\0"),
    ):
        with pytest.raises(EngineError):
            await call
