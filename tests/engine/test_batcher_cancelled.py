"""Cancelled callers and tasks, and calls at the end of a batch: no other call is lost."""

from __future__ import annotations

import asyncio
import random

import pytest

from flowfabric.engine.batcher import Batcher
from tests.patience import patience

from .batcher_helpers import SOON_S, Runs, all_of, kinds, tasks, turns


async def test_a_caller_that_is_cancelled_before_its_batch_is_dropped() -> None:
    runs = Runs()
    calls = runs.submit(1)
    await runs.begun(1)
    calls += runs.submit(2, 3, 4)
    calls[2].cancel()
    await runs.end(0)
    await runs.end(1)
    assert runs.batches == [[1], [2, 4]]
    assert kinds(await all_of(calls)) == [int, int, asyncio.CancelledError, int]


async def test_the_item_of_a_cancelled_caller_may_be_kept() -> None:
    runs = Runs(keeps_cancelled=True)
    calls = runs.submit(1, 2)
    calls[0].cancel()
    await runs.end(0)
    assert runs.batches == [[1, 2]] and kinds(await all_of(calls)) == [asyncio.CancelledError, int]


async def test_a_caller_that_is_cancelled_during_its_batch_does_not_disturb_the_others() -> None:
    runs = Runs()
    calls = runs.submit(1, 2)
    await runs.begun(1)
    calls[0].cancel()
    await runs.end(0)
    assert runs.batches == [[1, 2]] and kinds(await all_of(calls)) == [asyncio.CancelledError, int]


async def test_nothing_runs_when_all_callers_are_cancelled() -> None:
    runs = Runs()
    for call in runs.submit(1, 2):
        call.cancel()
    await turns()
    assert not runs.batches and runs.batcher.is_idle("a")
    later = runs.submit(3)
    await runs.end(0)
    assert await all_of(later) == [30]


@pytest.mark.parametrize("started", [False, True])
async def test_a_cancelled_task_cancels_its_batch_and_the_next_one_runs(started: bool) -> None:
    runs = Runs(limit=2)
    calls = runs.submit(1, 2, 3)
    await asyncio.sleep(0)
    if started:
        await runs.begun(1)
    (task,) = tasks()
    task.cancel()
    await turns()
    await runs.end(int(started))
    assert kinds(await all_of(calls)) == [asyncio.CancelledError, asyncio.CancelledError, int]
    assert runs.batches[-1] == [3] and runs.batcher.is_idle("a")


async def test_a_call_that_comes_when_the_last_batch_ends_is_served() -> None:
    """In every turn between the end of a batch and the turn in which the key is forgotten."""
    for late in range(8):
        runs = Runs()
        first = runs.submit(1)
        await runs.begun(1)
        runs.ends[0].set_result(None)
        await turns(late)
        second = runs.submit(2)
        await runs.end(1)
        assert await all_of([*first, *second]) == [10, 20], late


async def test_a_call_from_the_callback_of_an_answer_is_served() -> None:
    runs = Runs()
    later: list[asyncio.Future[int]] = []
    runs.submit(1)[0].add_done_callback(lambda _: later.extend(runs.submit(2)))
    await runs.end(0)
    await runs.end(1)
    assert await all_of(later) == [20] and runs.batcher.is_idle("a")


async def test_a_late_start_does_not_touch_the_next_line_of_its_key() -> None:
    """The callers of a scheduled start were cancelled, the last batch ends, and a new call
    comes.
    """
    runs = Runs(in_flight=2)
    first = runs.submit(1)
    await runs.begun(1)
    runs.ends[0].set_result(None)
    await asyncio.sleep(0)
    later: list[asyncio.Future[int]] = []
    asyncio.get_running_loop().call_soon(lambda: later.extend(runs.submit(3)))
    runs.submit(2)[0].cancel()
    await runs.begun(2)
    assert not runs.batcher.is_idle("a")
    await runs.end(1)
    assert (await all_of([*first, *later]), runs.batches) == ([10, 30], [[1], [3]])


async def test_no_call_is_lost_in_a_crowd() -> None:
    rng = random.Random(7)
    running, most = dict.fromkeys("abc", 0), 0

    async def run(key: str, items: list[int]) -> list[int | BaseException]:
        nonlocal most
        running[key] += 1
        most = max(most, running[key])
        try:
            await turns(rng.randrange(4))
            if rng.random() < 0.1:
                raise OSError
            return [OSError() if rng.random() < 0.1 else item for item in items]
        finally:
            running[key] -= 1

    batcher: Batcher[str, int, int] = Batcher(
        run, 5, in_flight=2, fitting=lambda items: rng.randint(1, len(items))
    )
    calls: list[asyncio.Future[int]] = []
    for item in range(3_000):
        calls.append(batcher.submit(rng.choice("abc"), item))
        if rng.random() < 0.05:
            rng.choice(calls).cancel()
        if rng.random() < 0.01 and tasks():
            rng.choice(tasks()).cancel()
        await turns(rng.randrange(2))
    found = await all_of(calls)
    assert set(kinds(found)) == {int, OSError, asyncio.CancelledError} and most == 2
    assert all(result == item for item, result in enumerate(found) if isinstance(result, int))
    await asyncio.wait_for(batcher.finish(), patience(SOON_S))
    assert all(map(batcher.is_idle, "abc")) and not tasks()
