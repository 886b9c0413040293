"""Claimers on many sessions share one lane: each row is claimed once, by priority, and no row hides
those after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.testing import ManualClock
from tests.patience import patient

from .helpers import Place, create_all, engines, ident, sound_world

ROWS = 1_000
GPU = frozenset({"gpu"})
NEEDS_GPU = {"routing_requirements": {"required_capabilities": ["gpu"]}}


def priority_of(n: int) -> int:
    """A third requires a capability that some claimers lack, and has the highest priority."""
    return 10 if n % 3 == 0 else n % 4


def args_of(n: int) -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ident(n), priority=priority_of(n), policy=NEEDS_GPU if n % 3 == 0 else None
    )


BEST_FIRST = sorted(range(ROWS), key=lambda n: (-priority_of(n), ident(n).uuid))
NUMBERS = {ident(n): n for n in range(ROWS)}


class Claimer:
    def __init__(self, engine: Engine, number: int, capabilities: frozenset[str]) -> None:
        self.engine, self.capabilities, self.took = engine, capabilities, list[ExecutionId]()
        self.policy = ClaimPolicy(f"w{number}", f"w{number}-1", 30_000, None)

    async def claim(self, n: int) -> int:
        found = await self.engine.claim_many("default", self.capabilities, self.policy, n)
        self.took += [work.execution_id for work in found]
        return len(found)


async def test_each_row_is_claimed_once_in_order_and_no_head_hides_the_rest(
    place: Place,
    clock: ManualClock,
) -> None:
    async with engines(place, 4, clock) as several:
        await create_all(several[0], map(args_of, range(ROWS)))
        claimers = [
            Claimer(several[at % 4], at, GPU if at >= 2 else frozenset()) for at in range(8)
        ]
        plain = [n for n in BEST_FIRST if n % 3]
        assert await claimers[0].claim(5) == 5
        assert claimers[0].took == [ident(n) for n in plain[:5]], (
            "334 rows it cannot run stand before these"
        )

        async def until_all_are_taken(claimer: Claimer) -> None:
            batch = 0
            while sum(len(each.took) for each in claimers) < ROWS:
                batch = batch % 5 + 1
                await claimer.claim(batch)

        async with patient(60):
            await asyncio.gather(*map(until_all_are_taken, claimers))
        world = await sound_world(several[0])
    counted = Counter(who for claimer in claimers for who in claimer.took)
    assert set(counted) == set(NUMBERS) and set(counted.values()) == {1}
    place = {ident(n): at for at, n in enumerate(BEST_FIRST)}
    for claimer in claimers:
        assert [place[who] for who in claimer.took] == sorted(place[who] for who in claimer.took)
        assert claimer.capabilities or all(NUMBERS[who] % 3 for who in claimer.took)
    assert sum(bool(claimer.took) for claimer in claimers) >= 4, (
        "too few took part for this to be a race"
    )
    assert {e.lease_epoch for e in world.executions.values()} == {1}
    assert all(len(world.leases[key]) == 1 for key in world.executions)
