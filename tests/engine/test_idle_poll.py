"""Polls of waiting claims: one per queue for all claims, and work is found although no wake-up
came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from flowfabric.engine.claims import idle_poll
from flowfabric.engine.claims.idle_poll import IdlePoll
from flowfabric.engine.engine import Engine
from flowfabric.model.lease import Handle
from flowfabric.store.port import Loaded, Read, Scan
from tests.patience import patient

from .helpers import LANE, after_load, create, fields, parked, worker
from .limit_helpers import quota_lane

OFTEN_S = 0.05
PATIENCE_S = 10.0
LONG_MS = 60_000
HERE = (LANE, "default")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowfabric.engine.claims.claims.POLL_S", OFTEN_S)
    monkeypatch.setattr("flowfabric.engine.claims.limit_cache.GATES_FRESH_S", OFTEN_S)


def is_poll(read: Read) -> bool:
    return isinstance(read, Scan) and read.index == "ready_gates" and read.limit == 1


@pytest.fixture
def looks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of each poll of a lane."""
    ended: list[float] = []

    async def noted() -> None:
        ended.append(time.monotonic())

    after_load(engine, monkeypatch, is_poll, noted)
    return ended


async def until(holds: Callable[[], bool]) -> None:
    async with patient(PATIENCE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def waiting(
    engine: Engine, number: int, *capabilities: str, lane: str = LANE
) -> asyncio.Future[Handle | None]:
    return asyncio.ensure_future(
        engine.claim(lane, capabilities, worker(number, max_wait_ms=LONG_MS))
    )


async def deaf(engine: Engine, monkeypatch: pytest.MonkeyPatch, lane: str = LANE) -> None:
    """A call waits, and no wake-up arrives from now on."""
    await parked(engine, "ready", lane)
    monkeypatch.setattr(engine.store.hub, "ring", lambda topics: None)


async def ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# ---- one for all


async def test_waiting_claims_share_a_poll_and_do_not_claim_from_an_empty_lane(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, looks: list[float]
) -> None:
    sweep, swept = engine.store.sweep, list[Any]()

    async def counted(plan: Any, limit: int) -> Any:
        swept.append(plan)
        return await sweep(plan, limit)

    monkeypatch.setattr(engine.store, "sweep", counted)
    tasks = [waiting(engine, n, *("a", "b")[: n % 3]) for n in range(16)]
    await deaf(engine, monkeypatch)
    before = len(looks)
    await until(lambda: len(looks) >= before + 2)
    asked, before = len(swept), len(looks)
    await until(lambda: len(looks) >= before + 5)
    assert len(swept) == asked
    gaps = [after - one for one, after in zip(looks[before:], looks[before + 1 :], strict=False)]
    assert min(gaps) > OFTEN_S / 2
    await ended(*tasks)


async def test_each_lane_is_polled(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    task, other = waiting(engine, 1), waiting(engine, 2, lane="other")
    await parked(engine, "ready", LANE)
    await deaf(engine, monkeypatch, "other")
    ident = await create(engine, lane_id="other")
    async with patient(PATIENCE_S):
        handle = await other
    assert handle is not None and fields(handle).execution_id == ident and not task.done()
    await ended(task)


# ---- what no bell told of


async def test_every_waiting_claim_gets_work_without_a_wakeup(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with a speciality find it made first and before all else, so that what is left is for
    the others.
    """
    kinds: list[tuple[str, ...]] = [("a",), ("b",), ("c",), (), ()]
    tasks = [waiting(engine, n, *offered) for n, offered in enumerate(kinds)]
    await deaf(engine, monkeypatch)
    made = set()
    for needed in kinds:
        policy = {"routing_requirements": {"required_capabilities": list(needed)}}
        made.add(await create(engine, policy=policy, priority=len(needed)))
    async with patient(PATIENCE_S):
        handles = await asyncio.gather(*tasks)
    assert {fields(handle).execution_id for handle in handles if handle is not None} == made


async def test_an_unrunnable_head_does_not_hide_the_work_behind_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, looks: list[float]
) -> None:
    task = waiting(engine, 1)
    await deaf(engine, monkeypatch)
    await create(
        engine, policy={"routing_requirements": {"required_capabilities": ["gpu"]}}, priority=9
    )
    before = len(looks)
    await until(lambda: len(looks) >= before + 3)
    assert not task.done()
    ident = await create(engine)
    async with patient(PATIENCE_S):
        handle = await task
    assert handle is not None and fields(handle).execution_id == ident


async def test_work_behind_an_unannounced_gate_is_found(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [waiting(engine, n) for n in range(3)]
    await deaf(engine, monkeypatch)
    await quota_lane(engine, cap=3)
    made = {await create(engine) for _ in range(3)}
    async with patient(PATIENCE_S):
        handles = await asyncio.gather(*tasks)
    assert {fields(handle).execution_id for handle in handles if handle is not None} == made


async def test_the_end_of_the_wait_claims_once_more(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.claims.claims.POLL_S", 60.0)
    task = asyncio.ensure_future(engine.claim(LANE, (), worker(max_wait_ms=500)))
    await deaf(engine, monkeypatch)
    ident = await create(engine)
    async with patient(PATIENCE_S):
        handle = await task
    assert handle is not None and fields(handle).execution_id == ident


# ---- the lookout by itself


class Sea:
    """A store that answers a poll when the test says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Loaded]] = []

    def load(self, reads: Sequence[Read]) -> Awaitable[Loaded]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def tell(self, *, something: bool) -> None:
        self.asked[-1].set_result(Loaded(0, [[(1,)] if something else []]))


@pytest.fixture
def sea() -> Sea:
    return Sea()


def on(sea: Sea) -> IdlePoll:
    store: Any = sea
    return IdlePoll(store)


async def test_an_earlier_poll_is_not_shared(sea: Sea) -> None:
    watch = on(sea)
    first = asyncio.ensure_future(watch.poll(HERE, time.monotonic()))
    await until(lambda: len(sea.asked) == 1)
    sea.tell(something=False)
    said, began = await first
    assert not said
    assert await watch.poll(HERE, began - 1) == (False, began)
    later = asyncio.ensure_future(watch.poll(HERE, time.monotonic()))
    await until(lambda: len(sea.asked) == 2)
    sea.tell(something=True)
    assert (await later)[0] is True and (await later)[1] > began


async def test_a_cancelled_caller_leaves_the_poll_to_the_others(sea: Sea) -> None:
    watch, since = on(sea), time.monotonic() - 1
    first, second = (asyncio.ensure_future(watch.poll(HERE, since)) for _ in range(2))
    await until(lambda: len(sea.asked) == 1)
    await ended(first)
    sea.tell(something=True)
    assert (await second)[0] is True and len(sea.asked) == 1


async def test_a_failed_poll_raises_only_for_its_callers(
    sea: Sea,
) -> None:
    watch, since = on(sea), time.monotonic() - 1
    both = [asyncio.ensure_future(watch.poll(HERE, since)) for _ in range(2)]
    await until(lambda: len(sea.asked) == 1)
    sea.asked[0].set_exception(RuntimeError("injected"))
    assert [str(said) for said in await asyncio.gather(*both, return_exceptions=True)] == [
        "injected"
    ] * 2
    third = asyncio.ensure_future(watch.poll(HERE, since))
    await until(lambda: len(sea.asked) == 2)
    sea.tell(something=False)
    assert (await third)[0] is False


async def test_all_callers_wake_for_the_next_poll(
    sea: Sea, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, now = on(sea), 100.0
    monkeypatch.setattr(
        idle_poll, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now)})
    )
    assert watch.wait_s(HERE, 98.0, 5.0) == 2.5  # at 102.5, a moment that all queues share
    looking = asyncio.ensure_future(watch.poll(HERE, 98.0))
    await until(lambda: len(sea.asked) == 1)
    sea.tell(something=False)
    await looking
    now = 103.0
    assert [watch.wait_s(HERE, since, 5.0) for since in (98.0, 100.0, 103.0)] == [2.0] * 3
    assert watch.wait_s(("other", "default"), 103.0, 5.0) == 4.5
    assert watch.wait_s((LANE, "other"), 103.0, 5.0) == 4.5
    now = 105.0
    assert [watch.wait_s(HERE, since, 5.0) for since in (100.0, 103.0, 105.0)] == [0.0, 2.5, 5.0]


async def test_polls_of_many_lanes_share_a_round_trip(sea: Sea) -> None:
    watch = on(sea)
    looking = [
        asyncio.ensure_future(watch.poll((f"lane{n}", "default"), time.monotonic()))
        for n in range(idle_poll.MAX_POLLS)
    ]
    await until(lambda: len(sea.asked) == 1)
    sea.asked[0].set_result(Loaded(0, [[(1,)] if n % 3 else [] for n in range(len(looking))]))
    answers = [found for found, _ in await asyncio.gather(*looking)]
    assert answers == [bool(n % 3) for n in range(len(looking))] and len(sea.asked) == 1


async def test_the_number_of_remembered_lanes_is_bounded(
    sea: Sea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_poll, "MAX_LANES", 3)
    watch = on(sea)
    for n in range(10):
        looking = asyncio.ensure_future(watch.poll((f"lane{n}", None), 0.0))
        await until(lambda n=n: len(sea.asked) == n + 1)
        sea.tell(something=False)
        await looking
        assert len(watch.polls) <= 3
