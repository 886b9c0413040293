"""Time for tests of tasks: it stands still until it is moved, and on the way everything that falls due happens in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import LoopSettings
from flowfabric.loops.supervisor import Supervisor
from flowfabric.sdk.times import Span, millis
from flowfabric.testing.clock import ManualClock

if TYPE_CHECKING:
    from flowfabric.sdk.worker import Worker

MAX_STOPS = 100_000


class VirtualClock:
    """`await clock.advance("30d")`: what falls due on the way happens at its time, and workers run what comes of it."""

    def __init__(self) -> None:
        self.manual = ManualClock()
        self.workers: list[Worker] = []
        self._engine: Engine | None = None
        self._loops: Supervisor | None = None

    @property
    def now_ms(self) -> int:
        return self.manual.now_ms

    def drive(self, engine: Engine) -> None:
        """The engine whose time this is."""
        self._engine, self._loops = engine, Supervisor(engine, LoopSettings())

    async def advance(self, span: Span) -> int:
        """Moves on, stopping wherever something is due; how often it stopped."""
        until, stops = self.now_ms + millis(span, "span"), 0
        await self.settle()
        while (due := await self._next_due()) is not None and due <= until and stops < MAX_STOPS:
            self.manual.advance(max(due - self.now_ms, 0))
            stops += 1
            if not await self.settle():
                break  # whatever is due there cannot be done
        self.manual.advance(max(until - self.now_ms, 0))
        await self.settle()
        return stops

    async def settle(self) -> int:
        """Everything that can happen without time passing; how much that was."""
        done = 0
        while some := await self._once():
            done += some
        return done

    async def _once(self) -> int:
        if self._loops is None:
            raise RuntimeError("the clock drives no engine yet: call drive(engine), or use the fixture ff_engine")
        done = await self._loops.run_once()
        for worker in self.workers:
            done += await worker.run_until_idle()
        return done

    async def _next_due(self) -> int | None:
        assert self._loops is not None and self._engine is not None
        dues = [await loop.next_due(self._engine) for loop in self._loops.loops]
        return min((due for due in dues if due is not None), default=None)
