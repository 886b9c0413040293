"""Ends and claims that share a statement, among other calls: one end is final, and each row has one
claimer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError, StateError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy, Handle, RevokeLeaseArgs, Work
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.testing import ManualClock
from flowfabric.verify.snapshot import Snapshot

from .helpers import Place, create_all, engines, ident, sound_world

EXECUTIONS = 200
AT_ONCE = 20
NEXT = "next"
TTL_MS = 600_000
Racer = Callable[[Engine, ExecutionId, Handle], Awaitable[Any]]


def worker(name: str, ttl_ms: int = TTL_MS) -> ClaimPolicy:
    return ClaimPolicy(name, f"{name}-1", ttl_ms, None)


class Taken:
    """The executions claimed from the second lane, with their claimers."""

    def __init__(self) -> None:
        self.by: dict[ExecutionId, str] = {}

    def add(self, works: Sequence[Work], instance: str) -> None:
        for work in works:
            assert work.execution_id not in self.by, "handed out twice"
            self.by[work.execution_id] = instance

    async def turn(self, engine: Engine, handle: Handle, name: str, payload: bytes) -> None:
        """Answers as `complete` does; records the claimed executions."""
        (answer,), works = await engine.complete_and_claim(
            [(handle, payload)], NEXT, (), worker(name), 1
        )
        self.add(works, f"{name}-1")
        if answer is not None:
            raise answer

    async def claim(self, engine: Engine, name: str) -> None:
        self.add(await engine.claim_many(NEXT, (), worker(name), 2), f"{name}-1")


async def waiting(engine: Engine, count: int) -> None:
    numbers = range(10_000, 10_000 + count)
    await create_all(
        engine,
        (
            CreateExecutionArgs(execution_id=ident(n), lane_id=NEXT, priority=n % 50)
            for n in numbers
        ),
    )


async def held(engine: Engine, numbers: range, ttl_ms: int = TTL_MS) -> dict[ExecutionId, Handle]:
    """Executions held by one worker."""
    await create_all(engine, (CreateExecutionArgs(execution_id=ident(n)) for n in numbers))
    works = await engine.claim_many("default", (), worker("w", ttl_ms), len(numbers))
    assert len(works) == len(numbers)
    return {work.execution_id: work.handle for work in works}


async def answered(
    behind: int, engine: Engine, who: ExecutionId, asked: Callable[[], Awaitable[Any]]
) -> Any:
    """The answer or the refusal; other callers have a head start of so many reads."""
    for _ in range(behind):
        await engine.parts.core.snapshots.execution(who)
    try:
        return await asked()
    except EngineError as error:
        return error


def check_taken(world: Snapshot, taken: Taken) -> None:
    """Each was claimed once, by the caller with the answer, and every claim had an answer."""
    waiting = {
        (e.partition_key, e.execution_id): e for e in world.executions.values() if e.lane_id == NEXT
    }
    told = {(who.partition_index, who.uuid): instance for who, instance in taken.by.items()}
    active = {
        key: e.current_worker_instance_id
        for key, e in waiting.items()
        if e.lifecycle_phase == "active"
    }
    assert active == told
    assert {key: len(world.leases.get(key, ())) for key in waiting} == {
        key: int(key in told) for key in waiting
    }
    assert len(set(told.values())) > 2, "too few took part for this to be a race"


async def test_of_four_ends_one_is_final_and_each_row_has_one_claimer(
    place: Place, clock: ManualClock
) -> None:
    taken = Taken()
    racers: tuple[tuple[str, Racer], ...] = (
        ("success", lambda e, _, h: taken.turn(e, h, "turner", b"turn")),
        ("cancelled", lambda e, i, _: e.cancel_execution(CancelExecutionArgs(execution_id=i))),
        ("success", lambda e, _, h: e.complete(h, b"alone")),
        ("revoked", lambda e, i, _: e.revoke_lease(RevokeLeaseArgs(execution_id=i))),
        ("success", lambda e, _, h: taken.turn(e, h, "second", b"again")),
        ("claimed", lambda e, _i, _h: taken.claim(e, "claimer")),
    )

    async def race(at: int, several: list[Engine], handle: Handle) -> list[Any]:
        def run(place: int, engine: Engine, word: str, racer: Racer) -> Awaitable[Any]:
            behind = (at + place) % len(racers)  # a look comes before a cancel and a revoke anyway
            asked = lambda: racer(engine, ident(at), handle)  # noqa: E731
            return answered(behind if word == "success" else behind // 2, engine, ident(at), asked)

        running = (
            run(place, several[place], word, racer) for place, (word, racer) in enumerate(racers)
        )
        return list(zip((word for word, _ in racers), await asyncio.gather(*running), strict=True))

    async with engines(place, len(racers), clock) as several:
        await waiting(several[0], 5 * EXECUTIONS)
        handles = await held(several[0], range(EXECUTIONS))
        answers: dict[ExecutionId, list[Any]] = {}
        for start in range(0, EXECUTIONS, AT_ONCE):
            some = range(start, start + AT_ONCE)
            found = await asyncio.gather(*(race(at, several, handles[ident(at)]) for at in some))
            answers.update({ident(at): each for at, each in zip(some, found, strict=True)})
        world = await sound_world(several[0])
    outcomes: Counter[str] = Counter()
    for who, told in answers.items():
        key = (who.partition_index, who.uuid)
        ended = [event["outcome"] for event in world.completions.get(key, [])]
        winners = {
            word
            for word, answer in told
            if word in ("success", "cancelled") and not isinstance(answer, EngineError)
        }
        assert ended == [world.executions[key].terminal_outcome] == list(winners), (who, told)
        outcomes[ended[0]] += 1
    assert len(outcomes) == 2, f"always the same one wins, so nobody races: {outcomes}"
    check_taken(world, taken)


async def test_a_lease_runs_out_while_it_is_ended(place: Place, clock: ManualClock) -> None:
    """Ended or lost, never both; a late caller has claimed its next execution all the same. Of
    several ends some may be late although one was not: the timely one locks its row after them.
    """
    taken, ttl_ms, names = Taken(), 10_000, ("one", "two", "three")

    async def expire(engine: Engine, behind: int) -> None:
        for _ in range(behind):
            await engine.parts.core.snapshots.execution(ident(0))
        clock.advance(ttl_ms)
        await engine.store.sweep(SWEEP_EXPIRED(), AT_ONCE)

    def end(
        behind: int, engine: Engine, who: ExecutionId, handle: Handle, name: str
    ) -> Awaitable[Any]:
        return answered(
            behind, engine, who, lambda: taken.turn(engine, handle, name, name.encode())
        )

    async with engines(place, 4, clock) as several:
        await waiting(several[0], 5 * EXECUTIONS)
        told: dict[ExecutionId, list[Any]] = {}
        for start in range(0, EXECUTIONS, AT_ONCE):
            handles = await held(several[0], range(start, start + AT_ONCE), ttl_ms)
            ending = [
                end(at % 4, engine, who, handle, name)
                for at, (who, handle) in enumerate(handles.items())
                for engine, name in zip(several, names, strict=False)
            ]
            done = await asyncio.gather(*ending, expire(several[3], start // AT_ONCE % 6))
            told |= {who: done[3 * at : 3 * at + 3] for at, who in enumerate(handles)}
            await several[3].store.sweep(SWEEP_EXPIRED(), AT_ONCE)
        world = await sound_world(several[0])
    ended = 0
    for who, answers in told.items():
        key = (who.partition_index, who.uuid)
        execution, events = (
            world.executions[key],
            [event["outcome"] for event in world.completions.get(key, [])],
        )
        marked = [event for event in world.leases[key] if event["event_type"] == "expired"]
        refused = [
            answer
            for answer in answers
            if isinstance(answer, StateError) and answer.code == "lease_expired"
        ]
        if execution.terminal_outcome == "success":
            assert None in answers and answers.count(None) + len(refused) == 3, (who, answers)
            assert (events, marked) == (["success"], []), who
            ended += 1
        else:
            assert (len(refused), events, len(marked)) == (3, [], 1), (who, answers)
    assert 0 < ended < len(told), f"nobody races: {ended} of {len(told)} ended in time"
    check_taken(world, taken)
