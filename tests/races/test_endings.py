"""The first end of an execution is final, whatever concurrent calls do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs, Expired
from flowfabric.model.lease import ClaimPolicy, Handle, RevokeLeaseArgs
from flowfabric.testing import ManualClock

from .helpers import Place, create_all, engines, ident, sound_world

EXECUTIONS = 300
Racer = Callable[[Engine, ExecutionId, Handle], Awaitable[Any]]
RACERS: tuple[tuple[str, Racer], ...] = (
    ("success", lambda e, _, h: e.complete(h, b"one")),
    ("cancelled", lambda e, i, _: e.cancel_execution(CancelExecutionArgs(execution_id=i))),
    ("failed", lambda e, _, h: e.fail(h, "no", FailureClass.PERMANENT)),
    ("revoked", lambda e, i, _: e.revoke_lease(RevokeLeaseArgs(execution_id=i))),
    ("success", lambda e, _, h: e.complete(h, b"two")),
    ("expired", lambda e, i, _: e.expire_execution(i, "execution_deadline")),
)
SENT_BLINDLY = (0, 2, 4)
"""Those of a holder go out without a look at the row, so they would always be the first."""


async def race(at: int, several: list[Engine], handle: Handle) -> list[tuple[str, Any]]:
    """All at once, each on its own session; each time another one has a head start."""
    who = ident(at)

    async def run(place: int, engine: Engine, racer: Racer) -> Any:
        behind = (at + place) % len(RACERS)
        for _ in range(behind if place in SENT_BLINDLY else behind // 2):
            await engine.parts.core.snapshots.execution(who)
        try:
            return await racer(engine, who, handle)
        except EngineError as error:
            return error

    running = [
        run(place, several[place % len(several)], racer) for place, (_, racer) in enumerate(RACERS)
    ]
    return list(zip((word for word, _ in RACERS), await asyncio.gather(*running), strict=True))


def claims_to_have_won(word: str, answer: Any) -> bool:
    return isinstance(answer, Expired) if word == "expired" else not isinstance(answer, EngineError)


async def test_of_many_endings_exactly_one_stands(place: Place, clock: ManualClock) -> None:
    async with engines(place, 6, clock) as several:
        first = several[0]
        await create_all(
            first,
            (
                CreateExecutionArgs(execution_id=ident(n), execution_deadline_at=clock() + 1_000)
                for n in range(EXECUTIONS)
            ),
        )
        handles = {}
        while len(handles) < EXECUTIONS:
            works = await first.claim_many(
                "default", (), ClaimPolicy("w", "w-1", 30_000, None), 100
            )
            handles.update({work.execution_id: work.handle for work in works})
        clock.advance(1_000)
        answers = {}
        for start in range(0, EXECUTIONS, 20):
            some = range(start, start + 20)
            found = await asyncio.gather(*(race(at, several, handles[ident(at)]) for at in some))
            answers.update({ident(at): each for at, each in zip(some, found, strict=True)})
        world = await sound_world(first)
    outcomes: Counter[str] = Counter()
    for who, told in answers.items():
        key = (who.partition_index, who.uuid)
        ended = [event["outcome"] for event in world.completions.get(key, [])]
        assert len(ended) == 1, (who, ended)
        outcome = world.executions[key].terminal_outcome
        winners = {
            word for word, answer in told if word != "revoked" and claims_to_have_won(word, answer)
        }
        assert winners == {outcome}, (who, outcome, told)
        outcomes[outcome] += 1
    assert len(world.executions) == EXECUTIONS
    assert len(outcomes) >= 2, f"always the same one wins, so nobody races: {outcomes}"
