"""A worker whose slots are all taken completes and claims in one round trip."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import App, Engine, Worker
from flowfabric.sdk.producer import MAX_COMBINED, Slots

from .helpers import impatient, unanswered, until, worked_off


class Turns:
    """The calls that complete and claim: completions, lane, claims."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self.calls = engine.complete_and_claim, list[tuple[int, str, int]]()
        self.done, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()
        monkeypatch.setattr(engine, "complete_and_claim", self._counted)

    async def _counted(self, many: Any, lane: str, *rest: Any) -> Any:
        answers, works = await self._real(many, lane, *rest)
        self.calls.append((len(many), lane, len(works)))
        self.done.set()
        await self.go.wait()
        return answers, works


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_completion_claims_the_next_when_every_slot_is_taken(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    turns, busy, most = Turns(memory, monkeypatch), 0, 0

    @app.task
    async def work(n: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return n

    runs = await work.submit_many(list(range(12)))
    assert await worked_off(app, concurrency=concurrency) == 12
    assert [await run.result() for run in runs] == list(range(12))
    assert most == concurrency
    assert sum(taken for _, _, taken in turns.calls) >= 12 - 2 * concurrency
    assert all(taken <= ended for ended, _, taken in turns.calls)


async def test_completion_with_free_slots_does_not_claim(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(memory, monkeypatch)

    @app.task
    async def work(n: int) -> int:
        return n

    async with Worker(app, concurrency=4, loops=False):
        for n in range(3):
            assert await (await work.submit(n)).result() == n
    assert turns.calls == []


async def test_large_batch_of_completions_does_not_claim(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, all_there = Turns(memory, monkeypatch), asyncio.Barrier(MAX_COMBINED + 1)

    @app.task
    async def work(n: int) -> int:
        await all_there.wait()
        return n

    await work.submit_many(list(range(2 * all_there.parties)))
    assert await worked_off(app, concurrency=all_there.parties) == 2 * all_there.parties
    assert turns.calls == []


async def test_lanes_take_turns_in_combined_completions(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(memory, monkeypatch)

    async def work(n: int) -> int:
        return n

    for lane in ("one", "two"):
        await app.task(name=lane, lane=lane)(work).submit_many(list(range(6)))
    assert await worked_off(app, concurrency=1) == 12
    assert {lane for _, lane, taken in turns.calls if taken} == {"one", "two"}


async def test_execution_claimed_by_the_last_completion_is_finished(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(memory, monkeypatch)
    turns.go.clear()

    @app.task
    async def work(n: int) -> int:
        return n

    runs = await work.submit_many([1, 2, 3])
    async with Worker(app, concurrency=1, loops=False) as worker:
        await turns.done.wait()
        stopping = asyncio.create_task(worker.stop())
        await until(lambda: worker.is_stopping)
        turns.go.set()
        await stopping
        assert worker.running == 0
    assert sorted([await run.state() for run in runs]) == ["completed", "completed", "waiting"]


async def test_execution_claimed_by_a_crashed_worker_is_not_started(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, ran = Turns(memory, monkeypatch), list[int]()
    turns.go.clear()

    @app.task
    async def work(n: int) -> int:
        ran.append(n)
        return n

    await work.submit_many([1, 2, 3])
    worker = await Worker(app, concurrency=1, loops=False).__aenter__()
    await turns.done.wait()
    dying = asyncio.create_task(worker.crash())
    await until(lambda: worker.is_crashed)
    turns.go.set()
    await dying
    assert (len(ran), worker.running) == (1, 0)


@pytest.mark.parametrize("landed", [True, False])
async def test_report_is_repeated_until_it_is_answered(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    impatient(monkeypatch)

    @app.task
    async def work(n: int) -> int:
        return n

    calls = unanswered(monkeypatch, memory, "complete_and_claim", 2, landed=landed)
    run = await work.submit(1)
    await worked_off(app, concurrency=1)
    assert await run.result() == 1
    assert len(calls) == 3


async def test_reserved_slots_are_not_free_and_not_taken() -> None:
    slots = Slots(2)
    slots.reserve(2)
    assert (slots.free, slots.are_taken) == (0, False)
    slots.settle(2, 1)
    assert (slots.free, slots.are_taken) == (1, False)
    slots.take(1)
    assert slots.are_taken
    slots.take(1)
    slots.release()
    waiting = asyncio.create_task(slots.wait())
    await asyncio.sleep(0)
    assert slots.are_taken and not waiting.done()
    slots.release()
    await waiting
    assert slots.free == 1
