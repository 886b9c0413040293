"""Idempotency keys of creates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import StateError
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate, ReplayExecutionArgs
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.state import PublicState
from flowfabric.testing import ManualClock

from .helpers import (
    claim,
    completed,
    create,
    dump,
    new_id,
    stored,
)

DAY_MS = 86_400_000


def args(**said: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(**{"execution_id": new_id(), **said})


async def test_a_key_makes_the_second_create_a_duplicate_of_the_first(engine: Engine) -> None:
    first = await create(engine, idempotency_key="k")
    second = args(idempotency_key="k")
    assert await engine.create_execution(second) == Duplicate(first)
    assert await stored(engine, second.execution_id) is None


async def test_keys_of_two_namespaces_do_not_meet(engine: Engine) -> None:
    await create(engine, idempotency_key="k", namespace="a")
    await create(engine, idempotency_key="k", namespace="b")


async def test_an_empty_key_is_no_key(engine: Engine) -> None:
    await create(engine, idempotency_key="")
    await create(engine, idempotency_key="")


async def test_concurrent_creates_with_one_key_make_one_execution(engine: Engine) -> None:
    answers = await asyncio.gather(
        *(engine.create_execution(args(idempotency_key="k")) for _ in range(8))
    )
    made = [a for a in answers if isinstance(a, Created)]
    assert len(made) == 1
    assert {a.execution_id for a in answers} == {made[0].execution_id}
    assert len((await dump(engine))["ff_exec_core"]) == 1


@pytest.mark.parametrize(("window", "lasts_ms"), [(None, DAY_MS), (1_000, 1_000)])
async def test_an_expired_key_is_free_once_its_execution_is_removed(
    engine: Engine, clock: ManualClock, window: int | None, lasts_ms: int
) -> None:
    policy = None if window is None else ExecutionPolicy(dedup_window_ms=window)
    first, _ = await completed(engine, idempotency_key="k", policy=policy)
    assert await engine.trim_retention("default", 0) == 1
    clock.advance(lasts_ms - 1)
    assert await engine.create_execution(args(idempotency_key="k", policy=policy)) == Duplicate(
        first
    )
    clock.advance(1)
    second = await create(engine, idempotency_key="k", policy=policy)
    assert await engine.create_execution(args(idempotency_key="k")) == Duplicate(second)


@pytest.mark.meets("retention", "replay")
async def test_a_key_holds_as_long_as_its_execution_is_kept(
    engine: Engine, clock: ManualClock
) -> None:
    first, _ = await completed(engine, idempotency_key="k")
    clock.advance(DAY_MS - 1)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=first))
    for _ in range(2):
        clock.advance(DAY_MS)
        assert await engine.create_execution(args(idempotency_key="k")) == Duplicate(first)
        await engine.forget_idempotency_keys()
        assert await engine.forget_idempotency_keys() == 0
    handle = await claim(engine)
    await engine.complete(handle, None)
    assert await engine.create_execution(args(idempotency_key="k")) == Duplicate(first)
    assert await engine.trim_retention("default", 0) == 1
    assert (await dump(engine))["ff_idempotency"] == []
    await create(engine, idempotency_key="k")


async def test_a_duplicate_returns_the_stored_digest_to_callers_with_a_digest(
    engine: Engine,
) -> None:
    first = await create(engine, idempotency_key="k", key_digest="d1")
    for mine, theirs in (("d1", "d1"), ("d2", "d1"), (None, None)):
        assert await engine.create_execution(
            args(idempotency_key="k", key_digest=mine)
        ) == Duplicate(first, theirs)
    plain = await create(engine, idempotency_key="plain")
    assert await engine.create_execution(
        args(idempotency_key="plain", key_digest="d1")
    ) == Duplicate(plain, None)


async def test_an_outdated_key_is_taken_once_by_racing_creates(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine, idempotency_key="k")
    await engine.trim_retention("default", 0)
    clock.advance(DAY_MS)
    answers = await asyncio.gather(
        *(engine.create_execution(args(idempotency_key="k")) for _ in range(4))
    )
    assert sum(isinstance(a, Created) for a in answers) == 1
    assert len({a.execution_id for a in answers}) == 1


async def test_a_key_outlives_its_execution(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await completed(engine, idempotency_key="k")
    clock.advance(10)
    assert await engine.trim_retention("default", 0) == 1
    assert await engine.create_execution(args(idempotency_key="k")) == Duplicate(ident)
    assert await engine.read_execution_state(ident) is None


async def test_a_refused_create_takes_no_key(engine: Engine) -> None:
    ident = await create(engine)
    assert await engine.create_execution(
        args(execution_id=ident, idempotency_key="k")
    ) == Duplicate(ident)
    await create(engine, idempotency_key="k")


@pytest.mark.meets("retention", "second_tenant")
async def test_keys_past_their_time_are_forgotten_and_others_kept(
    engine: Engine, clock: ManualClock
) -> None:
    for namespace in ("a", "b"):
        await completed(
            engine,
            namespace=namespace,
            idempotency_key="short",
            policy=ExecutionPolicy(dedup_window_ms=10),
        )
        if namespace == "a":
            await engine.trim_retention("default", 0)
    await create(engine, idempotency_key="long")
    assert await engine.forget_idempotency_keys() == 0
    clock.advance(10)
    assert await engine.forget_idempotency_keys() == 2  # one goes, one is left to its execution
    assert sorted((r[0], r[1], r[4]) for r in (await dump(engine))["ff_idempotency"]) == [
        ("b", "short", None),
        ("default", "long", clock() - 10 + DAY_MS),
    ]


async def test_a_bulk_answers_each_repeated_key_with_the_first_create(engine: Engine) -> None:
    first = await create(engine, idempotency_key="stored", key_digest="d")
    many = [
        args(idempotency_key="stored", key_digest="e"),
        args(idempotency_key="a"),
        args(),
        args(idempotency_key="a"),
        args(idempotency_key="b", delay_until=1_900_000_000_000),
        args(execution_id=first, idempotency_key="c"),
        args(idempotency_key="c"),
    ]
    answers = await engine.create_executions(many)
    assert answers == [
        Duplicate(first, "d"),
        Created(many[1].execution_id, PublicState.WAITING),
        Created(many[2].execution_id, PublicState.WAITING),
        Duplicate(many[1].execution_id),
        Created(many[4].execution_id, PublicState.DELAYED),
        Duplicate(first),
        Created(many[6].execution_id, PublicState.WAITING),
    ]
    again = await engine.create_executions(many)
    holders = [answers[at if at != 5 else 6].execution_id for at in range(len(many))]
    assert again == [Duplicate(each, None if at else "d") for at, each in enumerate(holders)]
    keys = {row[1] for row in (await dump(engine))["ff_idempotency"]}
    assert keys == {"stored", "a", "b", "c"}


async def test_concurrent_bulks_of_one_set_of_keys_create_each_once(engine: Engine) -> None:
    bulks = [[args(idempotency_key=f"k{at}") for at in range(150)] for _ in range(4)]
    bulks[1].reverse()
    answers = await asyncio.gather(*map(engine.create_executions, bulks))
    for at in range(150):
        same = [bulk[-at - 1 if turned == 1 else at] for turned, bulk in enumerate(answers)]
        assert len({each.execution_id for each in same}) == 1
        assert sum(isinstance(each, Created) for each in same) == 1
    stored_rows = await dump(engine)
    assert len(stored_rows["ff_exec_core"]) == len(stored_rows["ff_idempotency"]) == 150


async def test_an_expired_key_is_taken_over_in_a_bulk_and_a_kept_one_is_not(
    engine: Engine, clock: ManualClock
) -> None:
    gone, _ = await completed(engine, idempotency_key="gone")
    await engine.trim_retention("default", 0)
    kept, _ = await completed(engine, idempotency_key="kept")
    clock.advance(DAY_MS)
    many = [args(idempotency_key="gone"), args(idempotency_key="kept"), args(idempotency_key="new")]
    answers = await engine.create_executions(many)
    assert [type(answer) for answer in answers] == [Created, Duplicate, Created]
    assert answers[1] == Duplicate(kept)
    assert await engine.create_execution(args(idempotency_key="gone")) == Duplicate(
        many[0].execution_id
    )
    assert await stored(engine, gone) is None


async def test_a_lane_that_closes_takes_no_key(engine: Engine) -> None:
    await create(engine, lane_id="closing")
    await engine.set_lane_state("closing", "draining")
    keyed = args(lane_id="closing", idempotency_key="k")
    with pytest.raises(StateError):
        await engine.create_execution(keyed)
    with pytest.raises(StateError):
        await engine.create_executions([keyed])
    assert (await dump(engine))["ff_idempotency"] == []
