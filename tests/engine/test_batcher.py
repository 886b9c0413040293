"""Calls that come while a batch is in flight share the next one; each gets its own answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric.engine.batcher import TASK, Batch, Batcher

SOON_S = 10.0


class Runs:
    """Records the batches; each ends when `end` is called with its index."""

    def __init__(self, **said: Any) -> None:
        self.batches: list[list[int]] = []
        self._ends: list[asyncio.Future[None]] = []
        self.batcher: Batcher[str, int, int] = Batcher(self, **{"limit": 100, **said})

    async def __call__(self, key: str, items: list[int]) -> Sequence[int | BaseException]:
        end = asyncio.get_running_loop().create_future()
        self.batches.append(items)
        self._ends.append(end)
        await end
        return [item * 10 for item in items]

    def submit(self, *items: int, key: str = "a") -> list[asyncio.Future[int]]:
        return [self.batcher.submit(key, item) for item in items]

    async def end(self, at: int) -> None:
        await self.begun(at + 1)
        self._ends[at].set_result(None)
        await turns()

    async def begun(self, count: int) -> None:
        async with asyncio.timeout(SOON_S):
            while len(self._ends) < count:  # noqa: ASYNC110
                await asyncio.sleep(0)


class Accepted:
    """A fast path that takes every batch without a 9."""

    def __init__(self) -> None:
        self.batches: list[Batch[str, int, int]] = []

    def __call__(self, batch: Batch[str, int, int]) -> bool:
        if 9 in batch.items:
            return False
        self.batches.append(batch)
        return True

    def items(self) -> list[list[int]]:
        return [batch.items for batch in self.batches]


def tasks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == TASK]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def all_of(calls: Sequence[asyncio.Future[int]]) -> list[Any]:
    async with asyncio.timeout(SOON_S):
        return await asyncio.gather(*calls, return_exceptions=True)


def kinds(results: Sequence[object]) -> list[type]:
    return [type(result) for result in results]


# ---- batches


async def test_calls_of_one_turn_share_a_batch() -> None:
    runs = Runs()
    calls = runs.submit(1, 2, 3)
    await runs.end(0)
    assert (await all_of(calls), runs.batches) == ([10, 20, 30], [[1, 2, 3]])
    assert runs.batcher.is_idle("a")


async def test_calls_during_a_batch_share_the_next() -> None:
    runs = Runs()
    calls = runs.submit(1)
    await runs.begun(1)
    for item in (2, 3):
        calls += runs.submit(item)
        await turns()
    assert (runs.batches, runs.batcher.backlog("a")) == ([[1]], 2)
    await runs.end(0)
    assert (runs.batches, runs.batcher.backlog("a")) == ([[1], [2, 3]], 0)
    await runs.end(1)
    assert await all_of(calls) == [10, 20, 30]


async def test_a_batch_has_a_limit_and_keeps_the_order() -> None:
    runs = Runs(limit=2)
    calls = runs.submit(*range(5))
    for at in range(3):
        await runs.end(at)
    assert runs.batches == [[0, 1], [2, 3], [4]]
    assert await all_of(calls) == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("none_fits", [False, True])
async def test_what_does_not_fit_is_left_to_the_next_batch(none_fits: bool) -> None:
    runs = Runs(limit=3, fitting=lambda items: 0 if none_fits else 2)
    calls = runs.submit(*range(5))
    await runs.begun(1)
    for at in range(5 if none_fits else 3):
        await runs.end(at)
    assert runs.batches == ([[0], [1], [2], [3], [4]] if none_fits else [[0, 1], [2, 3], [4]])
    assert await all_of(calls) == [0, 10, 20, 30, 40]


async def test_a_key_does_not_wait_for_another() -> None:
    runs = Runs()
    slow, quick = runs.submit(1), runs.submit(2, key="b")
    await runs.end(1)
    assert await all_of(quick) == [20] and not slow[0].done()
    assert not runs.batcher.is_idle("a") and runs.batcher.is_idle("b")
    await runs.end(0)
    assert await all_of(slow) == [10]


async def test_several_batches_of_a_key_at_once() -> None:
    runs = Runs(limit=2, in_flight=2)
    calls = runs.submit(*range(5))
    await turns()
    assert runs.batches == [[0, 1], [2, 3]] and runs.batcher.backlog("a") == 1
    await runs.end(1)
    assert runs.batches == [[0, 1], [2, 3], [4]]
    calls += runs.submit(5)
    await turns()
    assert runs.batcher.backlog("a") == 1, "two are in flight"
    for at in (0, 2, 3):
        await runs.end(at)
    assert await all_of(calls) == [0, 10, 20, 30, 40, 50] and runs.batcher.is_idle("a")


# ---- errors


async def test_an_exception_in_the_results_is_for_its_own_caller() -> None:
    async def run(_: str, items: list[int]) -> list[int | BaseException]:
        return [ValueError(item) if item == 2 else item for item in items]

    batcher: Batcher[str, int, int] = Batcher(run, 10)
    assert kinds(await all_of([batcher.submit("a", n) for n in (1, 2, 3)])) == [
        int,
        ValueError,
        int,
    ]


async def test_items_without_a_result_go_with_the_next_batch() -> None:
    batches = []

    async def run(_: str, items: list[int]) -> list[int]:
        batches.append(items)
        await asyncio.sleep(0)
        return items[:2]

    batcher: Batcher[str, int, int] = Batcher(run, 4)
    calls = [batcher.submit("a", n) for n in range(5)]
    assert await all_of(calls) == [0, 1, 2, 3, 4]
    assert batches == [[0, 1, 2, 3], [2, 3, 4], [4]] and batcher.is_idle("a")


@pytest.mark.parametrize("results", [[], [1, 2, 3]])
async def test_a_wrong_number_of_results_is_an_error_for_all(results: list[int]) -> None:
    async def run(_: str, items: list[int]) -> list[int]:
        return results

    batcher: Batcher[str, int, int] = Batcher(run, 10)
    assert kinds(await all_of([batcher.submit("a", n) for n in (1, 2)])) == [RuntimeError] * 2


async def test_a_batch_that_fails_is_followed_by_the_next() -> None:
    fails = [True]

    async def run(_: str, items: list[int]) -> list[int]:
        if fails and fails.pop():
            raise OSError("gone")
        return items

    batcher: Batcher[str, int, int] = Batcher(run, 2)
    calls = [batcher.submit("a", n) for n in range(3)]
    assert kinds(await all_of(calls)) == [OSError, OSError, int] and batcher.is_idle("a")


# ---- cancelled callers and tasks


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
        runs._ends[0].set_result(None)
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
    """The callers of a scheduled start are gone, the last batch ends, and a new call comes."""
    runs = Runs(in_flight=2)
    first = runs.submit(1)
    await runs.begun(1)
    runs._ends[0].set_result(None)
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
    await asyncio.wait_for(batcher.finish(), SOON_S)
    assert all(map(batcher.is_idle, "abc")) and not tasks()


# ---- finish


async def test_finish_waits_for_all_calls_also_for_later_ones() -> None:
    runs = Runs()
    await asyncio.wait_for(runs.batcher.finish(), SOON_S)
    calls = runs.submit(1)
    finishing = [asyncio.create_task(runs.batcher.finish()) for _ in range(3)]
    await runs.begun(1)
    finishing[0].cancel()
    calls += runs.submit(2)
    await runs.end(0)
    calls += runs.submit(3, key="b")
    await runs.end(1)
    assert not finishing[1].done()
    await runs.end(2)
    await asyncio.wait_for(asyncio.gather(*finishing[1:]), SOON_S)
    assert all(call.done() for call in calls)


async def test_finish_waits_for_a_call_that_follows_the_last_answer() -> None:
    runs = Runs()
    runs.submit(1)[0].add_done_callback(lambda _: runs.submit(2))
    finishing = asyncio.create_task(runs.batcher.finish())
    await runs.end(0)
    assert not finishing.done()
    await runs.end(1)
    await asyncio.wait_for(finishing, SOON_S)


# ---- work for idle moments


async def test_idle_work_runs_when_no_call_waits() -> None:
    order: list[object] = []
    owed = ["x", "y"]

    async def run(_: str, items: list[int]) -> list[int]:
        order.extend(items)
        return items

    async def work(what: str) -> None:
        order.append(what)
        await turns()
        if what == "x":
            raise OSError("an error of idle work reaches no caller")

    batcher: Batcher[str, int, int] = Batcher(
        run, 1, idle=lambda: work(owed.pop(0)) if owed else None
    )
    first = [batcher.submit("a", n) for n in (1, 2)]
    await turns(6)
    assert order == [1, 2, "x"] and not batcher.is_idle("a")
    late = batcher.submit("a", 3)
    await asyncio.wait_for(batcher.finish(), SOON_S)
    assert order == [1, 2, "x", 3, "y"]
    assert await all_of([*first, late]) == [1, 2, 3]


# ---- batches without a task


async def test_a_fast_batch_starts_at_once_and_without_a_task() -> None:
    accepted = Accepted()
    runs = Runs(fast=accepted)
    calls = runs.submit(1, 2, 3)
    assert (accepted.items(), accepted.batches[0].key) == ([[1]], "a")
    accepted.batches[0].answer([10])
    assert accepted.items() == [[1], [2, 3]] and not tasks()
    calls += runs.submit(9)
    accepted.batches[1].fail(OSError("gone"))
    await runs.end(0)
    assert kinds(await all_of(calls)) == [int, OSError, OSError, int] and runs.batches == [[9]]
    assert runs.batcher.is_idle("a")


async def test_a_fast_batch_may_be_run_after_all() -> None:
    accepted = Accepted()
    runs = Runs(fast=accepted)
    calls = runs.submit(1)
    runs.batcher.run(accepted.batches[0])
    await runs.end(0)
    assert await all_of(calls) == [10] and runs.batcher.is_idle("a")


async def test_a_cancelled_fast_batch_cancels_its_calls() -> None:
    accepted = Accepted()
    calls = Runs(fast=accepted).submit(1, 2)
    accepted.batches[0].fail(asyncio.CancelledError())
    accepted.batches[1].answer([20])
    assert kinds(await all_of(calls)) == [asyncio.CancelledError, int]


async def test_finish_waits_for_a_fast_batch() -> None:
    accepted = Accepted()
    runs = Runs(fast=accepted)
    runs.submit(1)
    finishing = asyncio.create_task(runs.batcher.finish())
    await turns()
    assert not finishing.done()
    accepted.batches[0].answer([10])
    await asyncio.wait_for(finishing, SOON_S)
