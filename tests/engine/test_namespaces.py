"""Two namespaces in one lane: a claim takes the work of its own, and what another one has there
neither shows nor delays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric.engine.claims import namespace_rotation
from flowfabric.engine.claims.routing import CHECK_EVERY_MS
from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.explanation import Queue
from flowfabric.model.lease import ClaimGrant, NoWork
from flowfabric.store.port import Loaded, Read
from flowfabric.testing import ManualClock
from tests.patience import patient

from .helpers import LANE, create, fields, new_id, parked, registration, row, state, worker
from .limit_helpers import quota_lane

PATIENCE_S = 10.0
LONG_MS = 60_000
GPU: dict[str, Any] = {"policy": {"routing_requirements": {"required_capabilities": ["gpu"]}}}


async def taken(
    engine: Engine, namespace: str | None, n: int = 1, *capabilities: str
) -> list[ExecutionId]:
    works = await engine.claim_many(LANE, capabilities, worker(namespace=namespace), n)
    return [work.execution_id for work in works]


async def rows_of(engine: Engine, namespace: str, count: int, **said: Any) -> list[ExecutionId]:
    """In claim order, although they are created in the same millisecond."""
    idents = sorted(new_id() for _ in range(count))
    return [
        await create(engine, execution_id=ident, namespace=namespace, **said) for ident in idents
    ]


@pytest.fixture
def loads(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Read]]:
    """What is read from now on."""
    seen: list[Sequence[Read]] = []
    load = engine.store.load

    async def noted(reads: Sequence[Read]) -> Loaded:
        seen.append(reads)
        return await load(reads)

    monkeypatch.setattr(engine.store, "load", noted)
    return seen


# ---- one namespace


@pytest.mark.meets("second_tenant", "retry")
async def test_a_claim_takes_the_work_of_its_own_namespace(
    engine: Engine, clock: ManualClock
) -> None:
    (mine,), (theirs,), (plain,) = [
        await rows_of(engine, each, 1) for each in ("a", "b", "default")
    ]
    assert await taken(engine, "c", 9) == []
    assert await taken(engine, "a", 9) == [mine]
    assert await taken(engine, "a", 9) == []
    handle = await engine.claim(LANE, (), worker())
    assert handle is not None and fields(handle).execution_id == plain
    outcome = await engine.fail(handle, "again")
    assert isinstance(outcome, RetryScheduled)
    clock.advance(outcome.delay_until - clock())
    await engine.promote_delayed(plain)
    assert await state(engine, plain) == "READY"
    assert await taken(engine, "b", 9) == [theirs]
    assert (await taken(engine, "a", 9), await taken(engine, "default", 9)) == ([], [plain])


async def test_work_of_one_is_not_hidden_behind_that_of_another(engine: Engine) -> None:
    await rows_of(engine, "b", 120, priority=9)
    (mine,) = await rows_of(engine, "a", 1)
    assert await taken(engine, "a", 5) == [mine]


async def test_an_end_and_the_next_claim_stay_in_the_namespace(engine: Engine) -> None:
    first, second = await rows_of(engine, "a", 2)
    await rows_of(engine, "b", 1, priority=9)
    (work,) = await engine.claim_many(LANE, (), worker(namespace="a"), 1)
    answers, works = await engine.complete_and_claim(
        [(work.handle, b"")], LANE, (), worker(namespace="a"), 5
    )
    assert (work.execution_id, answers, [each.execution_id for each in works]) == (
        first,
        [None],
        [second],
    )


async def test_what_is_under_a_limit_is_claimed_by_namespace_too(engine: Engine) -> None:
    quota = await quota_lane(engine, cap=9, namespace="a")
    await quota_lane(engine, cap=9, namespace="b")
    mine, theirs = await rows_of(engine, "a", 3), await rows_of(engine, "b", 3, priority=9)
    assert await taken(engine, "c", 9) == []
    assert await taken(engine, "a", 2) == mine[:2]
    assert await taken(engine, "a", 9) == mine[2:]
    assert await taken(engine, "b", 9) == theirs
    assert (await row(engine, mine[0])).gate == str(quota)


async def test_limits_of_one_do_not_slow_the_claims_of_another(
    engine: Engine, loads: list[Sequence[Read]]
) -> None:
    """Where nothing of its own is under a limit, a namespace is asked in one statement."""
    plain = await rows_of(engine, "a", 1)
    await quota_lane(engine, cap=1, namespace="b")
    await rows_of(engine, "b", 2)
    await taken(engine, "a")
    await rows_of(engine, "b", 1)
    loads.clear()
    assert await taken(engine, "a") == []
    assert loads == [] and await state(engine, plain[0]) == "RUNNING"


# ---- all of them


async def test_a_claim_for_all_gives_each_its_turn(engine: Engine) -> None:
    await rows_of(engine, "b", 40, priority=9)
    (mine,), (last,) = await rows_of(engine, "a", 1), await rows_of(engine, "c", 1)
    found = [(await taken(engine, None))[0] for _ in range(3)]
    assert {mine, last} < set(found)
    assert [(await row(engine, ident)).namespace for ident in found] == ["a", "b", "c"]
    rest = [(await taken(engine, None))[0] for _ in range(39)]
    assert {(await row(engine, ident)).namespace for ident in rest} == {"b"}
    assert await taken(engine, None) == []


async def test_a_claim_for_all_takes_from_the_next_what_one_does_not_have(engine: Engine) -> None:
    made = [ident for each in "abc" for ident in await rows_of(engine, each, 2)]
    assert await taken(engine, None, 5) == made[:5]
    assert await taken(engine, None, 5) == made[5:]


async def test_a_claim_for_all_passes_over_what_it_cannot_take(engine: Engine) -> None:
    await rows_of(engine, "a", 3, **GPU)
    (plain,) = await rows_of(engine, "b", 1)
    assert await taken(engine, None) == [plain]
    assert await taken(engine, None) == []
    assert len(await taken(engine, None, 9, "gpu")) == 3


async def test_limits_are_looked_at_where_they_are(engine: Engine) -> None:
    plain = await rows_of(engine, "b", 1)
    await quota_lane(engine, cap=1, namespace="a")
    under = await rows_of(engine, "a", 2)
    assert await taken(engine, None, 9) == [under[0], *plain]
    assert await taken(engine, None, 9) == []


@pytest.mark.parametrize("backlog", [2, 30])
async def test_choosing_a_namespace_costs_one_read_for_any_backlog(
    engine: Engine, loads: list[Sequence[Read]], backlog: int
) -> None:
    for namespace in "ab":
        await rows_of(engine, namespace, backlog)
    for _ in range(2):
        await taken(engine, None)
    loads.clear()
    assert len(await taken(engine, None)) == 1
    assert len(loads) == 1


async def test_so_many_turns_are_taken_at_the_most_and_the_others_come_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_rotation, "MAX_NAMESPACES", 2)
    monkeypatch.setattr(namespace_rotation.NamespaceRotation.namespaces, "__defaults__", (2,))
    for namespace in "abcd":
        await rows_of(engine, namespace, 1, **({} if namespace == "d" else GPU))
    assert [len(await taken(engine, None)) for _ in range(2)] == [0, 1]


async def test_an_end_goes_with_a_claim_for_all(engine: Engine) -> None:
    (mine,), (theirs,) = await rows_of(engine, "a", 1), await rows_of(engine, "b", 1)
    (work,) = await engine.claim_many(LANE, (), worker(namespace=None), 1)
    answers, works = await engine.complete_and_claim(
        [(work.handle, b"")], LANE, (), worker(namespace=None), 5
    )
    assert (work.execution_id, answers, [each.execution_id for each in works]) == (
        mine,
        [None],
        [theirs],
    )
    assert await state(engine, mine) == "ENDED(success)"


async def test_what_fails_in_one_costs_nothing_of_what_was_taken_of_another(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = await rows_of(engine, "a", 1), await rows_of(engine, "b", 1)
    sweep = engine.store.sweep

    async def broken(plan: Any, limit: int) -> Any:
        if "b" in plan.values:
            raise RuntimeError("injected")
        return await sweep(plan, limit)

    with monkeypatch.context() as patch:
        patch.setattr(engine.store, "sweep", broken)
        assert await taken(engine, None, 2) == mine
        with pytest.raises(RuntimeError, match="injected"):
            await taken(engine, None, 2)
    assert await taken(engine, None, 2) == theirs


@pytest.mark.parametrize("bad", ["", "a\0b", 7, "n" * 300])
async def test_a_namespace_is_a_name_or_none(engine: Engine, bad: Any) -> None:
    for call in (
        lambda: engine.claim(LANE, (), worker(namespace=bad)),
        lambda: engine.claim_for_worker(LANE, "w", "i", (), 1_000, namespace=bad),
        lambda: engine.scan_eligible_executions(LANE, namespace=bad),
        lambda: engine.wait_for_work([LANE], namespace=bad),
    ):
        with pytest.raises(ValidationError, match="namespace"):
            await call()


# ---- grants


async def test_a_grant_is_given_in_the_namespace_of_the_worker(engine: Engine) -> None:
    await rows_of(engine, "b", 1, priority=9)
    (mine,), (plain,) = await rows_of(engine, "a", 1), await rows_of(engine, "default", 1)
    said = (LANE, "w1", "w1-i1", (), 1_000)
    assert await engine.claim_for_worker(*said, namespace="c") == NoWork()
    granted = await engine.claim_for_worker(*said, namespace="a")
    assert isinstance(granted, ClaimGrant) and granted.execution_id == mine
    granted = await engine.claim_for_worker(*said)
    assert isinstance(granted, ClaimGrant) and granted.execution_id == plain
    assert await engine.claim_for_worker(*said) == NoWork()


async def test_a_grant_for_all_gives_each_its_turn(engine: Engine) -> None:
    await rows_of(engine, "b", 5, priority=9)
    (mine,) = await rows_of(engine, "a", 1)
    granted = [
        await engine.claim_for_worker(LANE, f"w{n}", "i", (), 1_000, namespace=None)
        for n in range(2)
    ]
    assert mine in [each.execution_id for each in granted if isinstance(each, ClaimGrant)]


async def test_what_is_eligible_is_listed_by_namespace(engine: Engine) -> None:
    mine, theirs = await rows_of(engine, "a", 2), await rows_of(engine, "b", 2, priority=9)
    assert await engine.scan_eligible_executions(LANE) == []
    assert await engine.scan_eligible_executions(LANE, namespace="a") == mine
    assert await engine.scan_eligible_executions(LANE, namespace=None) == [*mine, *theirs]
    assert await engine.scan_eligible_executions(LANE, limit=3, namespace=None) == [
        *mine,
        theirs[0],
    ]


# ---- parking


async def test_a_specialist_does_not_let_go_of_what_another_namespace_has_parked(
    engine: Engine, clock: ManualClock
) -> None:
    (theirs,), (mine,) = await rows_of(engine, "b", 1, **GPU), await rows_of(engine, "a", 1, **GPU)
    for ident in (theirs, mine):
        await engine.block_route(ident, "waiting_for_capable_worker")
    assert await taken(engine, "a", 9, "gpu") == []
    clock.advance(CHECK_EVERY_MS)
    assert await taken(engine, "a", 9, "gpu") == [mine]
    assert await state(engine, theirs) == "ROUTE"
    await taken(engine, None, 9, "gpu")
    clock.advance(CHECK_EVERY_MS)
    assert await taken(engine, None, 9, "gpu") == [theirs]


async def test_unclaimable_work_is_parked_in_its_own_namespace(
    engine: Engine, clock: ManualClock
) -> None:
    """Neither a capable worker nor a claimer of another namespace keeps it in the queue."""
    await engine.register_worker(registration("a", namespace="a"))
    await engine.register_worker(registration("b", namespace="b", capabilities=frozenset({"gpu"})))
    (mine,), (theirs,) = await rows_of(engine, "a", 1, **GPU), await rows_of(engine, "b", 1, **GPU)
    for _ in range(2):
        assert await taken(engine, "b", 1, "gpu") in ([theirs], [])
        assert await taken(engine, "a", 1) == []
        clock.advance(CHECK_EVERY_MS)
    assert (await state(engine, mine), await state(engine, theirs)) == ("ROUTE", "RUNNING")


async def test_a_claim_for_all_parks_in_each(engine: Engine, clock: ManualClock) -> None:
    made = []
    for namespace in "ab":
        await engine.register_worker(registration(namespace, namespace=namespace))
        made += await rows_of(engine, namespace, 1, **GPU)
    assert await taken(engine, None) == []
    clock.advance(CHECK_EVERY_MS)
    assert await taken(engine, None) == []
    assert [await state(engine, ident) for ident in made] == ["ROUTE", "ROUTE"]


# ---- waiting


async def test_a_waiting_claim_wakes_for_its_namespace(engine: Engine) -> None:
    waiting = {
        namespace: asyncio.ensure_future(
            engine.claim(LANE, (), worker(n, max_wait_ms=LONG_MS, namespace=namespace))
        )
        for n, namespace in enumerate(("a", "b"))
    }
    await parked(engine, "ready", LANE)
    (theirs,) = await rows_of(engine, "b", 1)
    async with patient(PATIENCE_S):
        handle = await waiting["b"]
    assert handle is not None and fields(handle).execution_id == theirs and not waiting["a"].done()
    (mine,) = await rows_of(engine, "a", 1)
    async with patient(PATIENCE_S):
        handle = await waiting["a"]
    assert handle is not None and fields(handle).execution_id == mine


async def test_a_claim_for_all_waits_for_any(engine: Engine) -> None:
    waiting = asyncio.ensure_future(
        engine.claim(LANE, (), worker(max_wait_ms=LONG_MS, namespace=None))
    )
    await parked(engine, "ready", LANE)
    (theirs,) = await rows_of(engine, "b", 1)
    async with patient(PATIENCE_S):
        handle = await waiting
    assert handle is not None and fields(handle).execution_id == theirs


async def test_the_backlog_of_another_is_no_work(engine: Engine) -> None:
    """A claimer learns of work in its own namespace at once; submissions in others cause no
    claims.
    """
    await rows_of(engine, "b", 3)
    heard = await engine.wait_for_work([LANE], namespace="a")
    await rows_of(engine, "b", 2)
    assert await engine.wait_for_work([LANE], heard, 50, "a") == heard
    asking = asyncio.ensure_future(engine.wait_for_work([LANE, "other"], heard, 30_000, "a"))
    await parked(engine, "ready", LANE)
    await rows_of(engine, "b", 1)
    await rows_of(engine, "a", 1)
    async with patient(PATIENCE_S):
        assert await asking > heard
    assert await engine.wait_for_work([LANE], heard, 30_000, None) > heard


@pytest.mark.parametrize("engine", ["memory"], indirect=True)
async def test_a_backlog_of_another_namespace_causes_no_repeated_polls(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.claims.claims.POLL_S", 0.01)
    await rows_of(engine, "b", 3)
    swept, sweep = list[Any](), engine.store.sweep

    async def counted(plan: Any, limit: int) -> Any:
        swept.append(plan)
        return await sweep(plan, limit)

    monkeypatch.setattr(engine.store, "sweep", counted)
    assert await engine.claim(LANE, (), worker(max_wait_ms=300, namespace="a")) is None
    assert len(swept) == 3, "once, once more beside the bell, and when the time is up"


# ---- what is told


async def test_the_place_in_the_queue_is_that_among_its_own(engine: Engine) -> None:
    await rows_of(engine, "b", 3, priority=9)
    _, second = await rows_of(engine, "a", 2)
    (reason,) = (await engine.explain_execution(second)).reasons
    assert isinstance(reason.facts, Queue) and reason.facts.ahead == 1


async def test_a_lane_is_counted_whole_and_its_oldest_found_in_any_namespace(
    engine: Engine, clock: ManualClock
) -> None:
    await rows_of(engine, "b", 1)
    clock.advance(7_000)
    await rows_of(engine, "a", 2, priority=9)
    await quota_lane(engine, cap=1)
    await rows_of(engine, "c", 2)
    (load,) = (await engine.census()).lanes
    assert (load.states, load.oldest_ready_ms) == ({"waiting": 5}, 7_000)
    await taken(engine, "b")
    (load,) = (await engine.census()).lanes
    assert (load.states, load.oldest_ready_ms) == ({"waiting": 4, "active": 1}, 0)
