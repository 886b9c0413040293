"""Runs stories to their end and through their retention, with any set of processes."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.engine.engine import Engine
from flowfabric.testing import ManualClock

from .process import Process
from .story import Story, left, sound

FIRST_PAUSE_MS, DAY_MS = 15_000, 86_400_000
MAX_STOPS, MOST_AT_ONCE = 500, 20
"""What was held back at the moment of a reset is let go, and held back again, until that moment has
passed.
"""


class World:
    def __init__(self, base: Engine, clock: ManualClock, *stories: Story) -> None:
        self.base, self.clock, self.stories = base, clock, stories
        self.is_quiet = False
        """Whether nothing disturbs the stories."""

    async def begin(self) -> None:
        for story in self.stories:
            await story.begin()

    async def run(self, *processes: Process, forgets: bool = True) -> Process | None:
        """Until everything has ended and is removed, or until a process stops at its point; returns
        that process.
        """
        pause, busy = FIRST_PAUSE_MS, 0
        for _ in range(MAX_STOPS):
            done = 0
            for each in processes:
                some = await each.settle()
                if some is None:
                    return each
                done += some
            done += sum([await story.people() for story in self.stories])
            if await self._have_ended() and (not forgets or await left(self.base) == {}):
                await sound(self.base)
                return None
            busy = busy + 1 if done else 0
            if 0 < busy < MOST_AT_ONCE:
                pause = FIRST_PAUSE_MS
                continue
            await self._pass(
                processes, DAY_MS if all(story.has_ended for story in self.stories) else pause
            )
            pause = min(2 * pause, DAY_MS)
        raise AssertionError(f"it goes on for ever: {await self.state()}")

    async def _have_ended(self) -> bool:
        """All of them; each is checked when it ends, before it is removed."""
        for story in self.stories:
            if not story.has_ended and await story.is_over():
                await sound(self.base)
                await story.check()
                if self.is_quiet:
                    await story.check_all_met()
                story.has_ended = True
        return all(story.has_ended for story in self.stories)

    async def _pass(self, processes: Sequence[Process], pause: int) -> None:
        """Advances the clock to the next due time, or a little."""
        now = await self.base.store.now_ms()
        dues = [await each.next_due() for each in processes]
        self.clock.now_ms = min([due for due in dues if due is not None] + [now + pause])

    async def state(self) -> object:
        if all(story.has_ended for story in self.stories):
            return await left(self.base)
        return [
            (row["execution_kind"], row["public_state"])
            for story in self.stories
            for row in await story.rows("ff_exec_core")
        ]
