"""Faults in the processes of a story. Each happens at a write, before it or right after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

from flowfabric.engine.engine import Engine
from flowfabric.testing import ManualClock

from .driver import World
from .process import Process
from .story import Story, sound

NEIGHBOUR = "acme"
HOUR_MS = 3_600_000
STEPS_MS = (5 * HOUR_MS, -HOUR_MS)
"""Beyond every lease, timeout and deadline; and back, where time stands until the clock has caught
up.
"""
SOON = 12
"""Within so many of its writes, who came after meets who was there before."""


class Cast:
    """The processes of a story, and their successors."""

    def __init__(
        self, base: Engine, clock: ManualClock, kind: type[Story], chance: Random, span: int
    ) -> None:
        self.base, self.clock, self.kind, self.chance, self.span = base, clock, kind, chance, span
        self.story, self.version = kind(base, clock), 1
        self.world = World(base, clock, self.story)
        self.first = self.process()
        self.others: list[Process] = []
        self.struck: list[str] = []

    def process(
        self, story: Story | None = None, *, works: bool = True, leads: bool = True
    ) -> Process:
        app = partial((story or self.story).app, version=self.version)
        return Process(self.base.store, app, works=works, leads=leads)

    async def until(self, one: Process, span: int | None = None) -> bool:
        """All processes run until this one stops at its point; or until everything is over and it
        does not stop.
        """
        write, after = self.chance.randint(1, span or self.span), self.chance.random() < 0.5
        one.gate.at(write, after=after)
        stands = await self.world.run(*self.others, self.first) is one
        one.gate.disarm()
        self.struck.append(
            f"{'after' if after else 'before'} write {one.gate.writes}" if stands else "never"
        )
        return stands

    async def to_the_end(self) -> None:
        assert await self.world.run(*self.others, self.first) is None


Fault = Callable[["Cast", "Faults"], Awaitable[None]]
Faults = Sequence[Fault]


async def strike(cast: Cast, faults: Faults) -> None:
    """The first fault, and the others during it."""
    if faults:
        await faults[0](cast, faults[1:])


async def crash(cast: Cast, others: Faults) -> None:
    """Its leases expire, and another process continues."""
    if await cast.until(cast.first):
        await cast.first.die()
        cast.first = cast.process()
    await strike(cast, others)


async def freeze(cast: Cast, others: Faults) -> None:
    """Another process continues, and meanwhile the first one performs its pending write."""
    if not await cast.until(cast.first):
        return
    frozen, cast.first = cast.first, cast.process()
    before = cast.version
    await strike(cast, others)
    cast.story.in_turn = cast.version == before
    stands = await cast.until(cast.first, SOON)
    await frozen.go_on()
    await sound(cast.base)
    cast.others.append(frozen)
    if stands:
        await cast.first.go_on()


async def clock_step(cast: Cast, others: Faults) -> None:
    """The clock is set during an operation of a process."""
    if await cast.until(cast.first):
        cast.clock.advance(cast.chance.choice(STEPS_MS))
        await cast.first.go_on()
    await strike(cast, others)


async def leader_change(cast: Cast, others: Faults) -> None:
    """Another process runs the loops. The former leader was frozen, and for a moment both run
    them.
    """
    leader, cast.first = cast.process(works=False), cast.process(leads=False)
    cast.others.append(leader)
    if not await cast.until(leader, cast.span // 3):
        return
    follower = cast.others[cast.others.index(leader)] = cast.process(works=False)
    await strike(cast, others)
    stands = await cast.until(follower, SOON // 2)
    await leader.go_on()
    await sound(cast.base)
    if stands:
        await follower.go_on()


async def second_tenant(cast: Cast, others: Faults) -> None:
    """The same story runs in another namespace, under the same names, and does not wait for a
    stopped process.
    """
    neighbour = cast.kind(cast.base, cast.clock, NEIGHBOUR)
    alone = World(cast.base, cast.clock, neighbour)
    await neighbour.begin()
    own = cast.process(neighbour)
    if await cast.until(cast.first):
        own.gate.at(cast.chance.randint(1, 2 * cast.span), after=True)
        await alone.run(own, forgets=False)
        own.gate.disarm()
        await own.go_on()
        await cast.first.go_on()
    cast.world.stories += (neighbour,)
    cast.others.append(own)
    await strike(cast, others)


async def deploy(cast: Cast, others: Faults) -> None:
    """The next version continues the runs of this one, which is stopped or dies."""
    if await cast.until(cast.first):
        await (cast.first.leave() if cast.chance.random() < 0.5 else cast.first.die())
        cast.version = 2
        cast.first = cast.process()
    await strike(cast, others)
