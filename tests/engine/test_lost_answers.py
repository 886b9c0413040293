"""Commits whose answer is lost: the caller gets the outcome, or an error that leaves it open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    EngineError,
    ExecutionId,
)
from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.model.execution import Created, Duplicate, ReplayExecutionArgs
from flowfabric.model.flow import FlowAlreadyExists, FlowSubmitted
from flowfabric.model.lease import Work
from flowfabric.plan import Answer, Plan
from flowfabric.store.memory import MemoryStore
from flowfabric.testing import ManualClock

from .flow_helpers import Graph

IDENT = ExecutionId.solo("default")
FAR = 2**41


class Lossy:
    """Carries out everything, and loses the answers of so many commits; afterwards it may be out of
    reach.
    """

    def __init__(self, store: Any) -> None:
        self.store, self.loses, self.sent, self.away = store, 0, 0, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def commit(self, plan: Plan) -> Answer:
        return await self._told(await self.store.commit(plan))

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        return await self._told(await self.store.commit_together(plans))

    async def commit_many(self, plans: Sequence[Plan]) -> list[Any]:
        lost, answers = self.loses > 0, await self.store.commit_many(plans)
        self.loses -= lost
        return [TransportError("test", "lost", doubtful=True)] * len(plans) if lost else answers

    async def load(self, reads: Any) -> Any:
        if self.away:
            raise TransportError("test", "out of reach")
        return await self.store.load(reads)

    async def _told(self, answer: Answer) -> Answer:
        self.sent += 1
        if self.loses:
            self.loses -= 1
            raise TransportError("test", "lost", doubtful=True)
        return answer


async def leased() -> tuple[Engine, Lossy, Work]:
    store = Lossy(MemoryStore())
    engine = Engine(store)
    await engine.create_execution(CreateExecutionArgs(execution_id=IDENT))
    (work,) = await engine.claim_many(
        "default", (), ClaimPolicy("w", "w-1", lease_ttl_ms=30_000), 1
    )
    store.sent = 0
    return engine, store, work


Call = Callable[[Engine, Work], Awaitable[Any]]
ENDS: dict[str, Call] = {
    "complete": lambda engine, work: engine.complete(work.handle, b"done"),
    "fail": lambda engine, work: engine.fail(work.handle, "no"),
    "cancel": lambda engine, work: engine.cancel(work.handle),
}
NO_ENDS: dict[str, Call] = {
    "renew": lambda engine, work: engine.renew(work.handle),
    "progress": lambda engine, work: engine.progress(work.handle, 50),
    "delay": lambda engine, work: engine.delay(work.handle, FAR),
}


async def events(engine: Engine) -> list[str]:
    return [row[5] for row in (await engine.store.dump(("ff_lease_event",)))["ff_lease_event"]]


@pytest.mark.parametrize("call", ENDS.values(), ids=ENDS)
async def test_a_lost_completion_is_found_to_be_committed(call: Call) -> None:
    engine, store, work = await leased()
    store.loses = 1
    await call(engine, work)
    assert (store.sent, await events(engine)) == (1, ["acquired", "revoked"])


@pytest.mark.parametrize("call", NO_ENDS.values(), ids=NO_ENDS)
async def test_an_unknown_outcome_raises_and_is_committed_once(call: Call) -> None:
    engine, store, work = await leased()
    store.loses = 1
    with pytest.raises(TransportError) as told:
        await call(engine, work)
    assert (told.value.doubtful, store.sent) == (True, 1)
    assert len(await events(engine)) <= 2


@pytest.mark.parametrize("call", ENDS.values(), ids=ENDS)
async def test_a_completion_that_cannot_be_examined_stays_in_doubt(call: Call) -> None:
    engine, store, work = await leased()
    store.loses, store.away = 1, True
    with pytest.raises(TransportError) as told:
        await call(engine, work)
    assert told.value.doubtful


async def test_a_later_state_is_not_reported_as_a_refusal() -> None:
    """The execution was replayed before the read: it did complete."""
    engine, store, work = await leased()
    store.loses = 1

    async def replayed_meanwhile(reads: Any) -> Any:
        del store.load
        await engine.replay_execution(ReplayExecutionArgs(execution_id=IDENT))
        return await store.store.load(reads)

    store.load = replayed_meanwhile  # type: ignore[method-assign]
    with pytest.raises(TransportError) as told:
        await engine.complete(work.handle, b"done")
    assert told.value.doubtful
    with pytest.raises(EngineError) as refused:
        await engine.complete(work.handle, b"done")
    assert not isinstance(refused.value, TransportError)


async def test_many_lost_completions_are_found_to_be_committed() -> None:
    engine, store, work = await leased()
    store.loses = 1
    assert await engine.complete_many([(work.handle, b"done")]) == [None]
    assert await engine.get_execution_result(IDENT) == b"done"


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_lost_create_is_found(key: str | None) -> None:
    store = Lossy(MemoryStore())
    engine = Engine(store)
    args = CreateExecutionArgs(execution_id=IDENT, idempotency_key=key)
    await engine.create_execution(CreateExecutionArgs(execution_id=ExecutionId.solo("default")))
    store.loses = 1
    assert isinstance(await engine.create_execution(args), Created)
    assert isinstance(await engine.create_execution(args), Duplicate)
    store.loses, store.away = 1, True
    with pytest.raises(TransportError) as told:
        await engine.create_execution(
            CreateExecutionArgs(execution_id=ExecutionId.solo("default"), idempotency_key=key)
        )
    assert told.value.doubtful


async def test_a_lost_flow_submission_is_found() -> None:
    """Of this call, or of an earlier one."""
    clock = ManualClock()
    store = Lossy(MemoryStore(clock))
    engine = Engine(store)
    args = Graph().args("a>b")
    await engine.submit_flow(Graph().args("a>b"))
    store.loses = 1
    assert isinstance(await engine.submit_flow(args), FlowSubmitted)
    clock.advance(1)
    store.loses = 1
    assert isinstance(await engine.submit_flow(args), FlowAlreadyExists)


async def test_an_interrupted_bulk_create_is_in_doubt_as_a_whole() -> None:
    store = Lossy(MemoryStore())
    engine = Engine(store)
    await engine.create_execution(CreateExecutionArgs(execution_id=IDENT))

    commit_many = store.commit_many

    async def out_of_reach(plans: Sequence[Plan]) -> list[Answer]:
        raise TransportError("test", "out of reach")

    async def reached_once(plans: Sequence[Plan]) -> list[Answer]:
        store.commit_many = out_of_reach  # type: ignore[method-assign]
        return await commit_many(plans)

    store.commit_many = reached_once  # type: ignore[method-assign]
    first, again = (
        CreateExecutionArgs(execution_id=ExecutionId.solo("default"), idempotency_key="k")
        for _ in range(2)
    )
    with pytest.raises(TransportError) as told:
        await engine.create_executions([first, again])
    assert told.value.doubtful
    assert isinstance(await engine.create_execution(first), Duplicate)


async def test_a_refusal_without_a_lost_answer_stays_exact() -> None:
    engine, _, work = await leased()
    await engine.delay(work.handle, FAR)
    with pytest.raises(EngineError) as refused:
        await engine.complete(work.handle)
    assert refused.value.code == "execution_not_active"
