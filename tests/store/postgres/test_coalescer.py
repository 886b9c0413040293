"""Which jobs share a batch and which wait, without a database: the test ends each batch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.store.postgres import coalescer as module
from flowfabric.store.postgres.coalescer import MAX_BATCH, SMALLEST_SHARE, Coalescer

Batch = tuple[str, Any, list[Any]]


class Road:
    """Batches in flight, each until the test ends it."""

    def __init__(self) -> None:
        self.begun: list[Batch] = []
        self.gates: list[asyncio.Future[None]] = []

    async def run(self, carrier: str, shape: Any, items: list[Any]) -> list[Any]:
        self.begun.append((carrier, shape, items))
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        return [f"{item} done" for item in items]

    async def through(self, count: int = 1) -> None:
        for gate in self.gates[:count]:
            gate.set_result(None)
        del self.gates[:count]
        for _ in range(5):
            await asyncio.sleep(0)

    def fail(self, error: Exception) -> None:
        self.gates.pop(0).set_exception(error)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_free_carriers_share_the_ready_jobs() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a", "b"])
    waiting = [coalescer.submit("claim", n) for n in range(2 * SMALLEST_SHARE)]
    await turn()
    assert sorted(len(items) for _, _, items in road.begun) == [SMALLEST_SHARE, SMALLEST_SHARE]
    assert {carrier for carrier, _, _ in road.begun} == {"a", "b"}
    await road.through(2)
    assert await asyncio.gather(*waiting) == [f"{n} done" for n in range(2 * SMALLEST_SHARE)]


async def test_a_few_jobs_share_one_batch() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a", "b"])
    waiting = [coalescer.submit("claim", n) for n in range(SMALLEST_SHARE)]
    await turn()
    assert [len(items) for _, _, items in road.begun] == [SMALLEST_SHARE]
    await road.through()
    await asyncio.gather(*waiting)


async def test_jobs_that_arrive_while_all_carriers_are_busy_share_the_next_batch() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a"])
    first = coalescer.submit("claim", 0)
    await turn()
    later = [coalescer.submit("claim", n) for n in range(1, 20)]
    await turn()
    assert len(road.begun) == 1
    await road.through()
    assert await first == "0 done"
    assert road.begun[1][2] == list(range(1, 20))
    await road.through()
    await asyncio.gather(*later)


async def test_a_few_jobs_are_held_back_for_a_larger_batch() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a", "b"])

    async def twice(n: int) -> None:
        await coalescer.submit("claim", n)
        await coalescer.submit("claim", n)

    callers = [asyncio.ensure_future(twice(n)) for n in range(7)]
    await turn()
    late = coalescer.submit("claim", "late")
    await turn()
    assert [len(items) for _, _, items in road.begun] == [7]
    await road.through()
    assert road.begun[1][2] == ["late", *range(7)]
    await road.through()
    await asyncio.gather(late, *callers)


@pytest.mark.parametrize(("waiting", "goes"), [(3, False), (4, True)])
async def test_half_as_many_jobs_are_not_held_back(waiting: int, goes: bool) -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a", "b"])
    first = [coalescer.submit("claim", n) for n in range(8)]
    await turn()
    later = [coalescer.submit("complete", n) for n in range(waiting)]
    await turn()
    assert (len(road.begun) == 2) is goes
    await road.through(2)
    await road.through()
    await asyncio.gather(*first, *later)


async def test_jobs_are_not_held_back_longer_than_the_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_HOLD_S", 0.0)
    road = Road()
    coalescer = Coalescer(road.run, ["a", "b"])
    stuck = [coalescer.submit("claim", n) for n in range(8)]
    await turn()
    for n in range(3):
        alone = coalescer.submit("complete", n)
        while len(road.begun) < 2 + n:  # noqa: ASYNC110
            await asyncio.sleep(0)
        road.gates.pop(1).set_result(None)
        assert await alone == f"{n} done"
    assert not any(each.done() for each in stuck)
    await road.through()
    await asyncio.gather(*stuck)


async def test_a_batch_has_a_maximum_size() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a"])
    waiting = [coalescer.submit("bulk", n, size=MAX_BATCH // 2) for n in range(5)]
    await turn()
    for left in (2, 2, 1):
        assert len(road.begun[-1][2]) == left
        await road.through()
    await asyncio.gather(*waiting)


async def test_a_row_occurs_once_in_a_batch_and_keeps_its_order() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a", "b"])
    waiting = [
        coalescer.submit("update", word, [("row", 1)]) for word in ("first", "second", "third")
    ]
    other = coalescer.submit("update", "elsewhere", [("row", 2)])
    await turn()
    assert [items for _, _, items in road.begun] == [["first", "elsewhere"]]
    await road.through()
    assert road.begun[1][2] == ["second"]
    await road.through()
    assert road.begun[2][2] == ["third"]
    await road.through()
    assert await asyncio.gather(*waiting, other) == [
        "first done",
        "second done",
        "third done",
        "elsewhere done",
    ]


async def test_shapes_alternate() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a"], max_batch=2)
    waiting = [coalescer.submit("much", n) for n in range(6)]
    await turn()
    waiting.append(coalescer.submit("little", "x"))
    await road.through()
    await road.through()
    assert [shape for _, shape, _ in road.begun] == ["much", "much", "little"]
    for _ in range(3):
        await road.through()
    await asyncio.gather(*waiting)


async def test_a_failed_batch_fails_all_its_jobs_and_frees_its_carrier() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a"])
    waiting = [coalescer.submit("claim", n, [("row", n)]) for n in range(3)]
    await turn()
    road.fail(OSError("gone"))
    await turn()
    for each in waiting:
        with pytest.raises(OSError, match="gone"):
            await each
    again = coalescer.submit("claim", 0, [("row", 0)])
    await turn()
    await road.through()
    assert await again == "0 done"


async def test_a_cancelled_job_does_not_affect_the_others() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a"])
    waiting = [coalescer.submit("claim", n, [("row", 1)] if n else []) for n in range(2)]
    await turn()
    waiting[0].cancel()
    await road.through()
    assert await waiting[1] == "1 done"


async def test_draining_waits_for_everything_submitted() -> None:
    road = Road()
    coalescer = Coalescer(road.run, ["a"])
    waiting = [coalescer.submit("update", n, [("row", 1)]) for n in range(3)]
    await turn()
    draining = asyncio.ensure_future(coalescer.drain())
    for _ in range(3):
        assert not draining.done()
        await road.through()
    await draining
    assert all(each.done() for each in waiting)
