"""A clock for tests of tasks: moving it fires everything that falls due, in order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.supervisor import Supervisor
from flowfabric.sdk.durations import Span, millis
from flowfabric.testing.clock import ManualClock

if TYPE_CHECKING:
    from flowfabric.sdk.worker import Worker

MAX_STOPS = 100_000
MAX_PASSES, MAX_PASSES_MORE = 2_000, 3
MAX_RUNS = 50_000
"""More runs at one moment count as work that creates itself for ever."""
RUNS = "runs of tasks"
FIRST_PAUSE_MS, LAST_PAUSE_MS = 5_000, 3_600_000


class VirtualClock:
    """`await clock.advance("30d")` fires timers in order and runs what they make claimable."""

    def __init__(self) -> None:
        self.manual = ManualClock()
        self.workers: list[Worker] = []
        self._engine: Engine | None = None
        self._loops: Supervisor | None = None

    @property
    def now_ms(self) -> int:
        return self.manual.now_ms

    def drive(self, engine: Engine) -> None:
        """Attaches the clock to an engine and its background loops."""
        self._engine, self._loops = engine, Supervisor(engine, LoopSettings())

    async def advance(self, span: Span) -> int:
        """Moves the time by `span` and stops at every time at which something is due.

        Returns the number of stops. What cannot be done yet, such as work that waits for a quota
        or a worker, is tried again on the way, at growing distances.
        """
        until, stops, pause = self.now_ms + millis(span, "span"), 0, FIRST_PAUSE_MS
        await self.settle()
        while True:
            ahead, is_stuck = await self._next_due()
            again = self.now_ms + pause if is_stuck else None
            due = min((at for at in (ahead, again) if at is not None), default=None)
            if due is None or due > until:
                break
            self.manual.advance(due - self.now_ms)
            stops += 1
            if stops == MAX_STOPS:
                raise RuntimeError(
                    f"time does not settle: something was due {MAX_STOPS:,} times, and "
                    f"{until - self.now_ms:,} ms are left; advance in smaller spans, or find what "
                    "is due so often"
                )
            pause = FIRST_PAUSE_MS if await self.settle() else min(2 * pause, LAST_PAUSE_MS)
        self.manual.advance(until - self.now_ms)
        await self.settle()
        return stops

    async def settle(self) -> int:
        """Does everything that is possible at this time. Returns how much that was.

        Loops without a due time may report work in every pass while a flow is unfinished. They get
        a few further passes, because their work may enable others, and do not count as progress.
        """
        done, rest, busy = 0, MAX_PASSES_MORE, Counter[str]()
        for _ in range(MAX_PASSES):
            some, others = await self._once(busy)
            done += some
            rest = MAX_PASSES_MORE if some else rest - 1 if others else 0
            if rest <= 0:
                return done
            if busy[RUNS] >= MAX_RUNS:
                break
        most = ", ".join(f"{name} ({count:,})" for name, count in busy.most_common(3))
        raise RuntimeError(
            f"time does not settle: work is left at this time after {most}. "
            "Does a task submit itself, or is it retried without a pause?"
        )

    async def _once(self, busy: Counter[str]) -> tuple[int, int]:
        """Work done by workers and timed loops, and by other loops; `busy` counts it by name."""
        if self._loops is None or self._engine is None:
            raise RuntimeError(
                "the clock drives no engine yet: call drive(engine), or use the fixture ff_engine"
            )
        some = others = 0
        for loop in self._loops.loops:
            done = await loop.run(self._engine)
            busy[loop.name] += done
            some, others = (some + done, others) if loop.timed else (some, others + done)
        for worker in self.workers:
            done = await worker.run_until_idle(MAX_RUNS - busy[RUNS])
            busy[RUNS] += done
            some += done
        return some, others

    async def _next_due(self) -> tuple[int | None, bool]:
        """The next due time, and whether something is due already and cannot be done yet."""
        assert self._loops is not None and self._engine is not None
        dues = [await loop.next_due(self._engine) for loop in self._loops.loops]
        known = [due for due in dues if due is not None]
        for worker in self.workers:
            opens = await self._engine.quotas_open_at(*worker.lanes, namespace=worker.app.namespace)
            if opens is not None and opens > self.now_ms:
                known.append(opens)
        return min((due for due in known if due > self.now_ms), default=None), any(
            due <= self.now_ms for due in known
        )
