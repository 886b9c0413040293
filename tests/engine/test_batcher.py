"""Calls that come while a batch is in flight share the next one; each gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.engine.batcher import Batcher
from tests.patience import patience

from .batcher_helpers import SOON_S, Accepted, Runs, all_of, kinds, tasks, turns

# ---- batches


async def test_calls_of_one_loop_iteration_share_a_batch() -> None:
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


# ---- finish


async def test_finish_waits_for_all_calls_also_for_later_ones() -> None:
    runs = Runs()
    await asyncio.wait_for(runs.batcher.finish(), patience(SOON_S))
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
    await asyncio.wait_for(asyncio.gather(*finishing[1:]), patience(SOON_S))
    assert all(call.done() for call in calls)


async def test_finish_waits_for_a_call_that_follows_the_last_answer() -> None:
    runs = Runs()
    runs.submit(1)[0].add_done_callback(lambda _: runs.submit(2))
    finishing = asyncio.create_task(runs.batcher.finish())
    await runs.end(0)
    assert not finishing.done()
    await runs.end(1)
    await asyncio.wait_for(finishing, patience(SOON_S))


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
    await asyncio.wait_for(batcher.finish(), patience(SOON_S))
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
    await asyncio.wait_for(finishing, patience(SOON_S))
